package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"ollamoon/internal/results"
)

// A Goal is a figure to reach, and what was measured.
type Goal struct {
	Name     string
	Want     string // in words
	Measured string
	Met      bool
}

// heldGoal is what the client may hold beyond the caller's buffers.
const heldGoal = 64 << 20

// Goals compares results with what this project sets out to reach.
func Goals(f *results.File) []Goal {
	tcp, shared, python := f.Transfer.TCP, f.Transfer.SharedMemory, f.Peer.PythonClient
	held := max(tcp.HeldBytes, shared.HeldBytes)
	return []Goal{
		atLeast("TCP reload, of the Python client's", 1.3, tcp.ReloadMBs, python.ReloadMBs),
		atLeast("TCP publish, of the Python client's", 1.5, tcp.PublishMBs, python.PublishMBs),
		atLeast("TCP reload, of one loopback stream", 0.8, tcp.ReloadMBs, f.Limit.LoopbackTCPMBs),
		atLeast("TCP publish, of one loopback stream", 0.8, tcp.PublishMBs, f.Limit.LoopbackTCPMBs),
		atLeast("shared-memory reload, of the Python client's over TCP", 3, shared.ReloadMBs, python.ReloadMBs),
		atLeast("shared-memory publish, of the Python client's over TCP", 3, shared.PublishMBs, python.PublishMBs),
		{
			Name:     "memory held beyond the caller's buffers",
			Want:     fmt.Sprintf("< %d MiB", heldGoal>>20),
			Measured: fmt.Sprintf("%.1f MiB", float64(held)/(1<<20)),
			Met:      held > 0 && held < heldGoal,
		},
	}
}

func atLeast(name string, want, ours, theirs float64) Goal {
	ratio := 0.0
	if theirs > 0 {
		ratio = ours / theirs
	}
	return Goal{
		Name:     name,
		Want:     fmt.Sprintf(">= %.1f times", want),
		Measured: fmt.Sprintf("%.2f times", ratio),
		Met:      ratio >= want,
	}
}

// Summarize writes the figures and the goals as tables.
func Summarize(w io.Writer, f *results.File) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) { fmt.Fprintf(t, format+"\t\n", args...) }
	line("\tpublish MB/s\treload MB/s\treload p50 ms\tloopback MB\theld MiB")
	for _, m := range []struct {
		name string
		results.Measurement
	}{
		{"ours, TCP", f.Transfer.TCP},
		{"ours, shared memory", f.Transfer.SharedMemory},
		{"Python client, TCP", f.Peer.PythonClient},
	} {
		line("%s\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f", m.name, m.PublishMBs, m.ReloadMBs, m.ReloadMS.P50,
			float64(m.LoopbackBytes)/1e6, float64(m.HeldBytes)/(1<<20))
	}
	line("one loopback stream\t\t%.0f\t\t\t", f.Limit.LoopbackTCPMBs)
	line("memcpy\t\t%.0f\t\t\t", f.Limit.MemcpyMBs)
	line("the seal's checksum\t\t%.0f\t\t\t", f.Limit.ChecksumMBs)
	line("the seal's MAC\t\t%.0f\t\t\t", f.Limit.MACMBs)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "goal\twanted\tmeasured\t")
	for _, g := range Goals(f) {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", g.Name, g.Want, g.Measured, verdict)
	}
	return t.Flush()
}
