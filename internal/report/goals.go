package report

import (
	"fmt"
	"math"

	"ollamoon/internal/results"
)

// A goal is a speed or a size that the project means to reach, beside what this
// run did.
type goal struct {
	Group  string // what it is held against
	Name   string
	Expr   string // what is held against the bound
	Format string
	Bound  float64
	AtMost bool   // otherwise at least
	Target string // the bound in words
	Why    string // what is known of the limit, shown where the goal is missed
	Beside string // with it: an expression, as a part of memcpy's speed

	Figure   figure
	Share    figure // of the bound that was reached or used
	OfMemcpy figure // Beside
	Verdict  string // "met", "missed" or "not measured"
}

const (
	overPython = " / peer.python_client."
	ofLoopback = " / limit.loopback_tcp_mb_s"

	ownerThread = "The segment’s owner serves all connections from one thread, in pieces of 64 KiB; the raw stream has no store behind it."
	ownerCopy   = "The owner copies each page once, between its segment and the shared memory."
	ofMemcpy    = " / limit.memcpy_mb_s"
)

// goals judges the run.
func (v values) goals() ([]goal, error) {
	const tcp, shared, reload, publish = "transfer.tcp.", "transfer.shared_memory.", "reload_mb_s", "publish_mb_s"
	const python, stream, memory = "Against the Python client over TCP", "Of one loopback TCP stream", "Memory held beyond the caller’s buffers"
	all := []goal{
		{Group: python, Name: "Reload over TCP", Expr: tcp + reload + overPython + reload, Format: "ratio", Bound: results.GoalTCPReload},
		{Group: python, Name: "Publish over TCP", Expr: tcp + publish + overPython + publish, Format: "ratio", Bound: results.GoalTCPPublish},
		{Group: python, Name: "Reload by shared memory", Expr: shared + reload + overPython + reload, Format: "ratio", Bound: results.GoalSharedMemory, Why: ownerCopy, Beside: shared + reload + ofMemcpy},
		{Group: python, Name: "Publish by shared memory", Expr: shared + publish + overPython + publish, Format: "ratio", Bound: results.GoalSharedMemory, Why: ownerCopy, Beside: shared + publish + ofMemcpy},
		{Group: stream, Name: "Reload over TCP", Expr: tcp + reload + ofLoopback, Format: "percent", Bound: results.GoalOfLoopback, Why: ownerThread},
		{Group: stream, Name: "Publish over TCP", Expr: tcp + publish + ofLoopback, Format: "percent", Bound: results.GoalOfLoopback, Why: ownerThread},
		{Group: memory, Name: "Over TCP", Expr: tcp + "held_bytes", Format: "held", Bound: results.GoalHeldBytes, AtMost: true},
		{Group: memory, Name: "By shared memory", Expr: shared + "held_bytes", Format: "held", Bound: results.GoalHeldBytes, AtMost: true},
	}
	for i := range all {
		if err := v.judge(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (v values) judge(g *goal) error {
	g.Target = target(g.Format, g.Bound)
	value, err := v.eval(g.Expr)
	if err != nil {
		return err
	}
	if g.Figure, err = v.figure(g.Format, g.Expr); err != nil {
		return err
	}
	if g.Beside != "" {
		if g.OfMemcpy, err = v.figure("percent", g.Beside); err != nil {
			return err
		}
	}
	g.Share = shown(g.Expr+" / "+number(g.Bound), value/g.Bound, 0.01, 1, "%")
	switch {
	case math.IsNaN(value) || value == 0:
		g.Figure, g.Verdict = unknown(g.Expr), "not measured"
	case g.AtMost && value < g.Bound, !g.AtMost && value >= g.Bound:
		g.Verdict = "met"
	default:
		g.Verdict = "missed"
	}
	return nil
}

// target is a bound in words.
func target(format string, bound float64) string {
	switch format {
	case "held":
		return fmt.Sprintf("under %.0f MiB", bound/(1<<20))
	case "percent":
		return fmt.Sprintf("at least %.0f %%", 100*bound)
	}
	return fmt.Sprintf("at least %g×", bound)
}

// count returns how many goals have a verdict.
func count(goals []goal, verdict string) int {
	n := 0
	for _, g := range goals {
		if g.Verdict == verdict {
			n++
		}
	}
	return n
}
