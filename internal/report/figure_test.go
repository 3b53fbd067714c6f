package report

import (
	"math"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format, expr string
		text, unit   string
	}{
		{"count", "0", "0", ""},
		{"count", "999", "999", ""},
		{"count", "1792", "1,792", ""},
		{"count", "12345678", "12,345,678", ""},
		{"ms", "0", "not measured", ""},
		{"ms", "0.1234", "0.12", "ms"},
		{"ms", "9.994", "9.99", "ms"},
		{"ms", "9.996", "10.0", "ms"},
		{"ms", "22.841", "22.8", "ms"},
		{"ms", "99.96", "100", "ms"},
		{"ms", "1280.77", "1,281", "ms"},
		{"mbs", "332.4", "332", "MB/s"},
		{"mbs", "4498.95", "4,499", "MB/s"},
		{"mbs", "0", "not measured", ""},
		{"speed", "0", "not measured", ""},
		{"speed", "332.4", "332", "MB/s"},
		{"speed", "4498.95", "4.50", "GB/s"},
		{"size", "0", "0", "bytes"},
		{"size", "80", "80", "bytes"},
		{"size", "4096", "4.1", "kB"},
		{"size", "14680064", "14.7", "MB"},
		{"size", "102760448", "102.8", "MB"},
		{"size", "4110417920", "4.11", "GB"},
		{"held", "0", "not measured", ""},
		{"held", "4718592", "4.7", "MB"},
		{"percent", "7 / 8", "87.5", "%"},
		{"percent", "8 / 8", "100", "%"},
		{"percent", "0 / 8", "0", "%"},
		{"percent", "63 / 64", "98.4", "%"},
		{"percent", "1 / 3 / 0", "not measured", ""},
		{"percent", "0 / 0", "not measured", ""},
		{"times", "0", "0.00", "×"},
		{"times", "5 / 4", "1.25", "×"},
		{"ratio", "0 / 4", "not measured", ""},
		{"ratio", "48 / 4", "12.0", "×"},
	} {
		f, err := values{}.figure(c.format, c.expr)
		if err != nil || f.Text != c.text || (f.Known() && f.Unit != c.unit) || f.Known() == (c.text == "not measured") {
			t.Errorf("%s of %s is %q %q (%+v), %v; want %q %q", c.format, c.expr, f.Text, f.Unit, f, err, c.text, c.unit)
		}
	}
}

func TestEval(t *testing.T) {
	v := values{map[string]any{
		"a":   map[string]any{"b": 6.0, "list": []any{1.0, 2.0}},
		"yes": true, "no": false, "text": "x",
	}}
	for expr, want := range map[string]float64{
		"a.b":             6,
		"a.list.1":        2,
		"a.b / a.list.1":  3,
		"a.b - a.list.1":  4,
		"a.b - 4 * 3 / 2": 3,
		"yes * yes":       1,
		"yes * no":        0,
		"a.b / no":        math.NaN(),
	} {
		got, err := v.eval(expr)
		if err != nil || (got != want && !math.IsNaN(want)) || math.IsNaN(got) != math.IsNaN(want) {
			t.Errorf("%s = %v, %v; want %v", expr, got, err, want)
		}
	}
	for expr, want := range map[string]string{
		"":          "not complete",
		"a.b /":     "not complete",
		"a.b + 1":   `operator "+"`,
		"a.c":       "no c in a.c",
		"a.list.2":  "no 2",
		"a.list.-1": "no -1",
		"a.b.c":     "no c",
		"text":      "not a number",
		"a":         "not a number",
		"a.b / nil": "no nil",
	} {
		if got, err := v.eval(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q = %v, %v; want an error with %q", expr, got, err, want)
		}
	}
}

func TestGoals(t *testing.T) {
	measurement := func(speed, held float64) map[string]any {
		return map[string]any{"reload_mb_s": speed, "publish_mb_s": speed, "held_bytes": held}
	}
	verdicts := func(tcp, shared, python, loopback, held float64) string {
		v := values{map[string]any{
			"transfer": map[string]any{"tcp": measurement(tcp, held), "shared_memory": measurement(shared, held)},
			"peer":     map[string]any{"python_client": measurement(python, 0)},
			"limit":    map[string]any{"loopback_tcp_mb_s": loopback, "memcpy_mb_s": 1000.0},
		}}
		goals, err := v.goals()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, g := range goals {
			all = append(all, g.Verdict)
		}
		return strings.Join(all, ",")
	}
	const na = "not measured"
	join := func(words ...string) string { return strings.Join(words, ",") }
	for _, c := range []struct {
		name                                string
		tcp, shared, python, loopback, held float64
		want                                string
	}{
		{"at the bounds", 150, 300, 100, 187.5, 64<<20 - 1, join("met", "met", "met", "met", "met", "met", "met", "met")},
		{"just below", 129, 299, 100, 162, 64 << 20, join("missed", "missed", "missed", "missed", "missed", "missed", "missed", "missed")},
		{"between reload's bound and publish's", 130, 300, 100, 100, 1, join("met", "missed", "met", "met", "met", "met", "met", "met")},
		{"no peer", 150, 300, 0, 150, 1, join(na, na, na, na, "met", "met", "met", "met")},
		{"nothing", 0, 0, 0, 0, 0, join(na, na, na, na, na, na, na, na)},
		{"no shared memory", 150, 0, 100, 150, 1, join("met", "met", na, na, "met", "met", "met", "met")},
	} {
		if got := verdicts(c.tcp, c.shared, c.python, c.loopback, c.held); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

func TestChartScale(t *testing.T) {
	v := values{map[string]any{"a": 50.0, "b": 200.0, "rounds": []any{100.0, 400.0}, "none": nil, "zero": 0.0}}
	c, err := v.chart(chart{}, "mbs", []row{{"g", "", "a", "a", "none", false}, {"g", "", "b", "b", "rounds", false}, {"h", "", "z", "zero", "", false}})
	if err != nil {
		t.Fatal(err)
	}
	g := c.Groups[0]
	if len(c.Groups) != 2 || g.Bars[0].Share != 0.125 || g.Bars[1].Share != 0.5 || c.Groups[1].Bars[0].Share != 0 || c.Breaks() {
		t.Errorf("shares %+v", c.Groups)
	}
	if len(g.Bars[0].Marks) != 0 || len(g.Bars[1].Marks) != 2 || g.Bars[1].Marks[1] != 1 || !c.HasRounds() {
		t.Errorf("marks %+v", g.Bars)
	}
	if c, err := v.chart(chart{}, "mbs", []row{{"g", "", "a", "a", "", false}, {"g", "", "b", "b", "", true}}); err != nil ||
		c.Groups[0].Bars[0].Share != 1 || c.Groups[0].Bars[1].Share != 1 || !c.Groups[0].Bars[1].Broken || !c.Breaks() {
		t.Errorf("a bar that may break: %+v, %v", c, err)
	}
	if c, err := v.chart(chart{}, "mbs", []row{{"g", "", "z", "zero", "", false}}); err != nil || c.Groups[0].Bars[0].Share != 0 || c.HasRounds() {
		t.Errorf("a chart of nothing: %+v, %v", c, err)
	}
}
