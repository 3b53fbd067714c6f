package bench

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"ollamoon/internal/results"
)

// ttftGoals compares what was measured with what the project sets out to reach.
func ttftGoals(f *results.TTFT) []results.TTFTGoal {
	var goals []results.TTFTGoal
	least := func(name, unit string, want, measured float64) {
		goals = append(goals, results.TTFTGoal{Name: name, Unit: unit, Want: want, Measured: measured, Reached: measured >= want})
	}
	most := func(name, unit string, want, measured float64) {
		goals = append(goals, results.TTFTGoal{Name: name, Unit: unit, Want: want, Most: true, Measured: measured, Reached: measured <= want})
	}
	for _, p := range f.Prompts {
		of := func(what string) string { return fmt.Sprintf("%d tokens: %s", p.Tokens, what) }
		if want, ok := results.GoalOfCold[p.Tokens]; ok {
			least(of("reuse over TCP, quicker than cold"), "times", want, p.TCP.OfCold)
			least(of("reuse from files, quicker than cold"), "times", want, p.File.OfCold)
		}
		least(of("reuse from files, quicker than over TCP"), "times", 1, p.TCP.TTFT.P50/p.File.TTFT.P50)
		most(of("reuse over TCP, of a primed slot"), "times", results.GoalOfPrimed, p.TCP.OfPrimed)
		most(of("reuse from files, of a primed slot"), "times", results.GoalOfPrimed, p.File.OfPrimed)
		most(of("added by publishing"), "%", results.GoalPublishingAdded*1e2, p.Publishing.Added*1e2)
	}
	o := f.Overhead
	most("added by a lookup that misses", "ms", results.GoalMissMS, o.Miss.Added)
	most("added without a store, short prompt", "ms", results.GoalNoneMS, o.Short.NoneAdded)
	most("added with a store, short prompt", "ms", results.GoalNoneMS, o.Short.SharingAdded)
	least("tokens a second without a store, of stock", "times", results.GoalDecode, o.Decode.NoneOfStock)
	const mib = 1 << 20
	for _, r := range []struct {
		who string
		results.Resident
	}{{"publisher", f.Memory.Publisher}, {"reader over TCP", f.Memory.Loader}} {
		most("resident beside pages in flight, "+r.who, "MiB", results.GoalResidentBytes/mib, float64(r.Held())/mib)
	}
	return goals
}

// SummarizeTTFT writes the figures and the goals as tables.
func SummarizeTTFT(w io.Writer, f *results.TTFT) error {
	for _, part := range []struct {
		title string
		flags uint
		rows  [][]string
	}{
		{"time to first token, ms", tabwriter.AlignRight, promptRows(f)},
		{"where the median request's time went, ms", tabwriter.AlignRight, breakdownRows(f)},
		{"what is added where nothing is shared", tabwriter.AlignRight, overheadRows(f)},
		{"memory of the stand-in, MiB", tabwriter.AlignRight, memoryRows(f)},
		{breakEvenTitle(f), tabwriter.AlignRight, breakEvenRows(f)},
		{"goals", 0, ttftGoalRows(f)},
	} {
		if _, err := fmt.Fprintf(w, "%s\n", part.title); err != nil {
			return err
		}
		if err := table(w, part.flags, part.rows); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return nil
}

func tenths(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func percent(v float64) string { return fmt.Sprintf("%+.1f %%", v*1e2) }

func promptRows(f *results.TTFT) [][]string {
	rows := [][]string{{"", "tokens", "min", "median", "max", "", ""}}
	add := func(name string, tokens int, s results.Spread, notes ...string) {
		row := []string{name, strconv.Itoa(tokens), tenths(s.Min), tenths(s.P50), tenths(s.Max), "", ""}
		copy(row[5:], notes)
		rows = append(rows, row)
	}
	for _, p := range f.Prompts {
		add("cold", p.Tokens, p.Cold)
		add("primed slot", p.Tokens, p.Primed)
		for _, r := range []struct {
			name string
			results.Reuse
		}{{"reuse over TCP", p.TCP}, {"reuse from files", p.File}} {
			add(r.name, p.Tokens, r.TTFT, tenths(r.OfCold)+" times quicker than cold", tenths(r.OfPrimed)+" times primed")
		}
		add("cold", p.Publishing.Tokens, p.Publishing.Cold)
		add("publishing", p.Publishing.Tokens, p.Publishing.Publishing, percent(p.Publishing.Added))
	}
	return rows
}

func breakdownRows(f *results.TTFT) [][]string {
	rows := [][]string{{"", "tokens", "MB", "lookup", "load", "restore", "engine", "other", "primed engine"}}
	for _, p := range f.Prompts {
		for _, r := range []struct {
			name string
			b    results.Breakdown
		}{{"over TCP", p.TCP.Breakdown}, {"from files", p.File.Breakdown}} {
			rows = append(rows, []string{
				r.name, strconv.Itoa(p.Tokens), tenths(float64(p.Bytes) / 1e6), tenths(r.b.Lookup), tenths(r.b.Load),
				tenths(r.b.Restore), tenths(r.b.Compute), tenths(r.b.Other), tenths(p.PrimedCompute),
			})
		}
	}
	return rows
}

func overheadRows(f *results.TTFT) [][]string {
	o := f.Overhead
	hundredths := func(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }
	rate := func(v float64) string { return tenths(v) + " tokens/s" }
	return [][]string{
		{"", "tokens", "stock", "no store", "added", "sharing", "added"},
		{
			"short prompt", strconv.Itoa(o.Short.Tokens), hundredths(o.Short.Stock.P50), hundredths(o.Short.None.P50), hundredths(o.Short.NoneAdded),
			hundredths(o.Short.Sharing.P50), hundredths(o.Short.SharingAdded),
		},
		{"lookup that misses", strconv.Itoa(o.Miss.Tokens), hundredths(o.Miss.Stock.P50), "", "", hundredths(o.Miss.Sharing.P50), hundredths(o.Miss.Added)},
		{
			"generating", strconv.Itoa(o.Decode.Tokens), rate(o.Decode.Stock), rate(o.Decode.None), percent(o.Decode.NoneOfStock - 1),
			rate(o.Decode.Sharing), percent(o.Decode.SharingOfStock - 1),
		},
	}
}

func memoryRows(f *results.TTFT) [][]string {
	mib := func(bytes int64) string { return tenths(float64(bytes) / (1 << 20)) }
	rows := [][]string{{"", "tokens", "now", "peak", "pages in flight, at most", "beside them"}}
	for _, r := range []struct {
		who string
		results.Resident
	}{{"publisher", f.Memory.Publisher}, {"reader over TCP", f.Memory.Loader}} {
		rows = append(rows, []string{r.who, strconv.Itoa(f.Memory.Tokens), mib(r.NowBytes), mib(r.PeakBytes), mib(r.InFlightBytes), mib(r.Held())})
	}
	return rows
}

func breakEvenTitle(f *results.TTFT) string {
	b := f.BreakEven
	return fmt.Sprintf("where loading breaks even: %.1f ms fixed, %.0f MB/s loaded, %.0f MB/s restored", b.FixedMS, b.LoadMBs, b.RestoreMBs)
}

func breakEvenRows(f *results.TTFT) [][]string {
	heads := []string{"", "KV KB/token", "prefill tokens/s", "slowest link MB/s"}
	for _, t := range f.BreakEven.Rows[0].Tokens {
		heads = append(heads, fmt.Sprintf("tokens at %.0f MB/s", t.LinkMBs))
	}
	rows := [][]string{heads}
	number := func(format string, v float64) string {
		if v == 0 {
			return "never"
		}
		return fmt.Sprintf(format, v)
	}
	for _, r := range f.BreakEven.Rows {
		row := []string{r.Model, tenths(float64(r.TokenBytes) / 1e3), fmt.Sprintf("%.0f", r.PrefillTokens), number("%.1f", r.LinkMBs)}
		for _, t := range r.Tokens {
			row = append(row, number("%.0f", float64(t.Tokens)))
		}
		rows = append(rows, row)
	}
	return rows
}

func ttftGoalRows(f *results.TTFT) [][]string {
	rows := [][]string{{"", "wanted", "measured", ""}}
	for _, g := range f.Goals {
		sign, verdict := ">=", "not reached"
		if g.Most {
			sign = "<="
		}
		if g.Reached {
			verdict = "reached"
		}
		rows = append(rows, []string{g.Name, fmt.Sprintf("%s %g %s", sign, g.Want, g.Unit), fmt.Sprintf("%.2f %s", g.Measured, g.Unit), verdict})
	}
	return rows
}
