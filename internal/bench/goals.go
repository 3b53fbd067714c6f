package bench

import (
	"fmt"
	"io"
	"strings"
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

// Goals compares results with what this project sets out to reach.
func Goals(f *results.File) []Goal {
	tcp, shared, python := f.Transfer.TCP, f.Transfer.SharedMemory, f.Peer.PythonClient
	held := max(tcp.HeldBytes, shared.HeldBytes)
	return []Goal{
		atLeast("TCP reload, of the Python client's", results.GoalTCPReload, tcp.ReloadMBs, python.ReloadMBs),
		atLeast("TCP publish, of the Python client's", results.GoalTCPPublish, tcp.PublishMBs, python.PublishMBs),
		atLeast("TCP reload, of one loopback stream", results.GoalOfLoopback, tcp.ReloadMBs, f.Limit.LoopbackTCPMBs),
		atLeast("TCP publish, of one loopback stream", results.GoalOfLoopback, tcp.PublishMBs, f.Limit.LoopbackTCPMBs),
		atLeast("shared-memory reload, of the Python client's over TCP", results.GoalSharedMemory, shared.ReloadMBs, python.ReloadMBs),
		atLeast("shared-memory publish, of the Python client's over TCP", results.GoalSharedMemory, shared.PublishMBs, python.PublishMBs),
		{
			Name:     "memory held beyond the caller's buffers",
			Want:     fmt.Sprintf("< %d MiB", results.GoalHeldBytes>>20),
			Measured: fmt.Sprintf("%.1f MiB", float64(held)/(1<<20)),
			Met:      held > 0 && held < results.GoalHeldBytes,
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
	if err := table(w, tabwriter.AlignRight, figureRows(f)); err != nil {
		return err
	}
	if f.Engine != nil {
		if err := summarizeEngine(w, f.Engine); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return table(w, 0, goalRows(f))
}

func summarizeEngine(w io.Writer, e *results.Engine) error {
	answers := "equal to"
	if !e.AnswersEqual {
		answers = "NOT EQUAL TO"
	}
	b := e.Breakdown
	_, err := fmt.Fprintf(w, "\n%s: time to first token of %d tokens %.0f ms computed, %.0f ms with %d from the store, %.1f times\n"+
		"  lookup %.1f ms, load %.1f, restore %.1f, computing the rest %.1f, other %.1f\n"+
		"  answers are %s those without Ollamoon\n",
		e.Model, e.PromptTokens, e.TTFTComputedMS, e.TTFTReusedMS, e.TokensSkipped, e.TTFTComputedMS/e.TTFTReusedMS,
		b.Lookup, b.Load, b.Restore, b.Compute, b.Other, answers)
	return err
}

func figureRows(f *results.File) [][]string {
	whole := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	rows := [][]string{{"", "publish MB/s", "reload MB/s", "reload p50 ms", "loopback MB", "held MiB"}}
	for _, m := range []struct {
		name string
		results.Measurement
	}{
		{"ours, TCP", f.Transfer.TCP},
		{"ours, shared memory", f.Transfer.SharedMemory},
		{"Python client, TCP", f.Peer.PythonClient},
	} {
		rows = append(rows, []string{
			m.name, whole(m.PublishMBs), whole(m.ReloadMBs), tenths(m.ReloadMS.P50),
			tenths(float64(m.LoopbackBytes) / 1e6), tenths(float64(m.HeldBytes) / (1 << 20)),
		})
	}
	for _, l := range []struct {
		name string
		mbs  float64
	}{
		{"one loopback stream", f.Limit.LoopbackTCPMBs},
		{"memcpy", f.Limit.MemcpyMBs},
		{"the seal's checksum", f.Limit.ChecksumMBs},
		{"the seal's MAC", f.Limit.MACMBs},
	} {
		rows = append(rows, []string{l.name, "", whole(l.mbs), "", "", ""})
	}
	return rows
}

func goalRows(f *results.File) [][]string {
	rows := [][]string{{"goal", "wanted", "measured", ""}}
	for _, g := range Goals(f) {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		rows = append(rows, []string{g.Name, g.Want, g.Measured, verdict})
	}
	return rows
}

func table(w io.Writer, flags uint, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	for _, row := range rows {
		if _, err := io.WriteString(t, strings.Join(row, "\t")+"\t\n"); err != nil {
			return err
		}
	}
	return t.Flush()
}
