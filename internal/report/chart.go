package report

import (
	"math"
	"strconv"
)

// A chart is groups of horizontal bars on one scale that begins at 0.
type chart struct {
	ID, Title string
	Caption   string // where it is not the template's
	Groups    []barGroup
}

type barGroup struct {
	Label string
	Bars  []bar
}

// A bar is one figure as a length.
type bar struct {
	Label  string
	Class  string // whose it is, for its colour and pattern
	Figure figure
	Share  float64   // of the longest bar
	Broken bool      // longer than the scale, and cut
	Marks  []float64 // shares of single rounds, drawn on the bar
	Rounds []figure  // those rounds

	value    float64
	rounds   []float64
	mayBreak bool
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// bar looks up a bar; its share is set when the chart is whole.
func (v values) bar(class, label, format, expr string) (bar, error) {
	b := bar{Class: class, Label: label}
	var err error
	if b.value, err = v.eval(expr); err != nil {
		return bar{}, err
	}
	b.Figure, err = v.figure(format, expr)
	return b, err
}

// withRounds adds the single rounds behind a bar's figure.
func (v values) withRounds(b bar, format, place string) (bar, error) {
	at, err := v.lookup(place)
	if err != nil {
		return bar{}, err
	}
	rounds, _ := at.([]any) // null: none
	for i := range rounds {
		expr := place + "." + strconv.Itoa(i)
		f, err := v.figure(format, expr)
		if err != nil {
			return bar{}, err
		}
		value, err := v.eval(expr)
		if err != nil {
			return bar{}, err
		}
		b.Rounds, b.rounds = append(b.Rounds, f), append(b.rounds, value)
	}
	return b, nil
}

// scale sets all shares by the longest bar of those that may not break.
func (c *chart) scale() {
	longest := 0.0
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			if !b.mayBreak {
				longest = math.Max(longest, b.value)
			}
			for _, r := range b.rounds {
				longest = math.Max(longest, r)
			}
		}
	}
	share := func(value float64) float64 {
		if longest == 0 {
			return 0
		}
		return math.Round(value/longest*1e4) / 1e4
	}
	for _, g := range c.Groups {
		for i := range g.Bars {
			b := &g.Bars[i]
			b.Share = share(b.value)
			if b.Share > 1 {
				b.Share, b.Broken = 1, true
			}
			for _, r := range b.rounds {
				b.Marks = append(b.Marks, share(r))
			}
		}
	}
}

// A row says what a bar shows; a chart is made of a list of them.
type row struct {
	group, class, label, expr string
	rounds                    string // place of the single rounds, if any
	mayBreak                  bool   // a bar that does not stretch the scale
}

func (v values) chart(c chart, format string, rows []row) (*chart, error) {
	for _, r := range rows {
		b, err := v.bar(r.class, r.label, format, r.expr)
		if err == nil && r.rounds != "" {
			b, err = v.withRounds(b, format, r.rounds)
		}
		if err != nil {
			return nil, err
		}
		b.mayBreak = r.mayBreak
		if n := len(c.Groups); n == 0 || c.Groups[n-1].Label != r.group {
			c.Groups = append(c.Groups, barGroup{Label: r.group})
		}
		last := &c.Groups[len(c.Groups)-1]
		last.Bars = append(last.Bars, b)
	}
	c.scale()
	return &c, nil
}

// Breaks says that a bar is cut.
func (c *chart) Breaks() bool {
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			if b.Broken {
				return true
			}
		}
	}
	return false
}

// HasRounds says that single rounds are drawn.
func (c *chart) HasRounds() bool {
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			if len(b.Rounds) > 0 {
				return true
			}
		}
	}
	return false
}

const (
	tcpPlane    = "TCP"
	sharedPlane = "Shared memory"
)

func (v values) throughput() (*chart, error) {
	return v.chart(chart{ID: "throughput", Title: "KV transfer throughput"}, "mbs", []row{
		{"Reload (p50)", "tcp", tcpPlane, "transfer.tcp.reload_mb_s", "", false},
		{"Reload (p50)", "shared", sharedPlane, "transfer.shared_memory.reload_mb_s", "", false},
		{"Publish (median round)", "tcp", tcpPlane, "transfer.tcp.publish_mb_s", "transfer.tcp.publish_rounds_mb_s", false},
		{"Publish (median round)", "shared", sharedPlane, "transfer.shared_memory.publish_mb_s", "transfer.shared_memory.publish_rounds_mb_s", false},
	})
}

func (v values) latency() (*chart, error) {
	var rows []row
	for _, plane := range []struct{ class, label, place string }{
		{"tcp", tcpPlane, "transfer.tcp.reload_ms."},
		{"shared", sharedPlane, "transfer.shared_memory.reload_ms."},
	} {
		for _, statistic := range []string{"min", "p50", "mean", "max"} {
			rows = append(rows, row{plane.label, plane.class, statistic, plane.place + statistic, "", false})
		}
	}
	return v.chart(chart{ID: "latency", Title: "Prefix reload latency"}, "ms", rows)
}

func (v values) comparison() (*chart, error) {
	return v.chart(chart{ID: "comparison", Title: "Side by side, in the same run"}, "mbs", []row{
		{"Reload", "shared", "This client, shared memory", "transfer.shared_memory.reload_mb_s", "", false},
		{"Reload", "tcp", "This client, TCP", "transfer.tcp.reload_mb_s", "", false},
		{"Reload", "peer", "Python client, TCP", "peer.python_client.reload_mb_s", "", false},
		{"Publish", "shared", "This client, shared memory", "transfer.shared_memory.publish_mb_s", "transfer.shared_memory.publish_rounds_mb_s", false},
		{"Publish", "tcp", "This client, TCP", "transfer.tcp.publish_mb_s", "transfer.tcp.publish_rounds_mb_s", false},
		{"Publish", "peer", "Python client, TCP", "peer.python_client.publish_mb_s", "peer.python_client.publish_rounds_mb_s", false},
		{"The machine, without a store", "limit", "One loopback TCP stream", "limit.loopback_tcp_mb_s", "", false},
		{"The machine, without a store", "limit", "memcpy, one thread", "limit.memcpy_mb_s", "", true},
	})
}

func (v values) seals() (*chart, error) {
	return v.chart(chart{ID: "seals", Title: "The seal, beside memcpy"}, "mbs", []row{
		{"One thread", "seal", "Checksum (XXH3-128)", "limit.checksum_mb_s", "", false},
		{"One thread", "limit", "memcpy", "limit.memcpy_mb_s", "", false},
		{"All processors", "seal", "MAC (keyed BLAKE3)", "limit.mac_mb_s", "", false},
		{"What it must keep up with", "tcp", "Reload over TCP", "transfer.tcp.reload_mb_s", "", false},
		{"What it must keep up with", "shared", "Reload by shared memory", "transfer.shared_memory.reload_mb_s", "", false},
	})
}

func (v values) firstToken() (*chart, error) {
	const a, b = "Request A", "Request B, which begins like A"
	return v.chart(chart{ID: "ttft", Title: "Time to the first token"}, "ms", []row{
		{b, "peer", "Without Ollamoon", "engine.ttft_computed_ms", "", false},
		{b, "tcp", "Worker B, from the store", "engine.ttft_reused_ms", "", false},
		{a, "peer", "Worker A, publishing", "engine.ttft_publishing_ms", "", false},
	})
}

func (v values) parts() (*chart, error) {
	const group, place = "Worker B", "engine.breakdown_ms."
	return v.chart(chart{ID: "parts", Title: "Where worker B’s time went"}, "ms", []row{
		{group, "tcp", "Asking what is there", place + "lookup", "", false},
		{group, "tcp", "Loading, checking", place + "load", "", false},
		{group, "tcp", "Restore", place + "restore", "", false},
		{group, "peer", "Computing the rest", place + "compute", "", false},
		{group, "limit", "Everything else", place + "other", "", false},
	})
}
