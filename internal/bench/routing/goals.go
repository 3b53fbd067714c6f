package routing

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"ollamoon/internal/bench"
	"ollamoon/internal/wholefile"
)

// What the router sets out to reach.
const (
	// GoalAddedMS is how much later the first byte comes, at the 99th percentile.
	GoalAddedMS = 1.0
	// GoalHeldBytes is what its process has resident with GoalStreams idle streams.
	GoalHeldBytes = 100 << 20
	GoalStreams   = 1000
)

// Goals compares a result with what the router sets out to reach.
func Goals(r *Result) []bench.Goal {
	added := func(name string, l Latency) bench.Goal {
		return bench.Goal{
			Name: "p99 of what the router adds to the time to first byte" + name, Want: fmt.Sprintf("< %.1f ms", GoalAddedMS),
			Measured: fmt.Sprintf("%.2f ms", l.Added.P99), Met: l.Routed.P50 > 0 && l.Added.P99 < GoalAddedMS,
		}
	}
	return []bench.Goal{
		added("", r.Quiet),
		added(", beside idle streams", r.Beside),
		{
			Name: fmt.Sprintf("resident with %d idle streams", r.Streams), Want: fmt.Sprintf("< %d MiB with %d", GoalHeldBytes>>20, GoalStreams),
			Measured: fmt.Sprintf("%.1f MiB", mib(r.HeldBytes)), Met: r.Streams >= GoalStreams && r.HeldBytes > 0 && r.HeldBytes < GoalHeldBytes,
		},
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Summarize writes the figures and the goals as tables.
func Summarize(w io.Writer, r *Result) error {
	rows := [][]string{{"time to first byte, ms", "direct p50", "p99", "routed p50", "p99", "added p50", "p99"}}
	for _, l := range []struct {
		name string
		Latency
	}{{"nothing else", r.Quiet}, {fmt.Sprintf("beside %d idle streams", r.Streams), r.Beside}} {
		row := []string{l.name}
		for _, q := range []Quantiles{l.Direct, l.Routed, l.Added} {
			row = append(row, fmt.Sprintf("%.3f", q.P50), fmt.Sprintf("%.3f", q.P99))
		}
		rows = append(rows, row)
	}
	if err := table(w, tabwriter.AlignRight, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d rounds of %d pairs of requests of %d tokens, the median round; the router's memory: %.1f MiB before, %.1f with %d idle streams, at most %.1f\n\n",
		r.Rounds, r.Pairs, r.Tokens, mib(r.StartBytes), mib(r.HeldBytes), r.Streams, mib(r.PeakBytes))
	if err != nil {
		return err
	}
	rows = [][]string{{"goal", "wanted", "measured", ""}}
	for _, g := range Goals(r) {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		rows = append(rows, []string{g.Name, g.Want, g.Measured, verdict})
	}
	return table(w, 0, rows)
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

// Write writes the result as JSON, whole or not at all.
func (r *Result) Write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return wholefile.Write(path, append(data, '\n'))
}

// resident returns a process's memory that is resident, now and at its peak;
// zeroes where the system does not tell.
func resident(pid int) (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading the router's memory: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		// Lines of other fields are left alone: they do not begin so.
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &peak)
	}
	return now << 10, peak << 10, nil
}
