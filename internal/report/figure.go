package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// values is a results file as plain JSON, to look up figures by their place.
type values struct{ root any }

func valuesOf(f any) (values, error) {
	data, err := json.Marshal(f)
	if err != nil {
		return values{}, fmt.Errorf("encoding results: %w", err)
	}
	var v values
	if err := json.Unmarshal(data, &v.root); err != nil {
		return values{}, fmt.Errorf("decoding results: %w", err)
	}
	return v, nil
}

// lookup returns the value at a place such as "transfer.tcp.reload_ms.p50";
// elements of arrays are named by their index.
func (v values) lookup(place string) (any, error) {
	at := v.root
	for name := range strings.SplitSeq(place, ".") {
		var next any
		ok := false
		switch inner := at.(type) {
		case map[string]any:
			next, ok = inner[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(inner) {
				next, ok = inner[i], true
			}
		}
		if !ok {
			return nil, fmt.Errorf("results have no %s in %s", name, place)
		}
		at = next
	}
	return at, nil
}

// eval computes an expression: places and numbers with " / ", " * " or " - "
// between them, from left to right. True counts as 1 and false as 0, so that a
// product of flags is their conjunction. A division by 0 gives NaN: unknown.
func (v values) eval(expr string) (float64, error) {
	words := strings.Fields(expr)
	if len(words)%2 == 0 {
		return 0, fmt.Errorf("expression %q is not complete", expr)
	}
	total, err := v.operand(words[0])
	if err != nil {
		return 0, err
	}
	for i := 1; i < len(words); i += 2 {
		right, err := v.operand(words[i+1])
		if err != nil {
			return 0, err
		}
		switch words[i] {
		case "/":
			total /= right
		case "*":
			total *= right
		case "-":
			total -= right
		default:
			return 0, fmt.Errorf("expression %q has operator %q", expr, words[i])
		}
	}
	if math.IsInf(total, 0) {
		total = math.NaN()
	}
	return total, nil
}

func (v values) operand(word string) (float64, error) {
	if n, err := strconv.ParseFloat(word, 64); err == nil {
		return n, nil
	}
	at, err := v.lookup(word)
	if err != nil {
		return 0, err
	}
	switch n := at.(type) {
	case float64:
		return n, nil
	case bool:
		if n {
			return 1, nil
		}
		return 0, nil
	}
	return 0, fmt.Errorf("%s is not a number", word)
}

// A figure is one value of the results as the page shows it.
type figure struct {
	Expr  string // where it comes from, as in eval
	Value string // exact; empty when it was not measured
	Text  string // as shown
	Unit  string // shown behind it; empty for none
	Scale string // what one of the shown number is in the file's unit; empty for words
}

// Known says that the figure was measured.
func (f figure) Known() bool { return f.Value != "" }

func unknown(expr string) figure { return figure{Expr: expr, Text: "not measured"} }

func shown(expr string, value, scale float64, decimals int, unit string) figure {
	return figure{
		Expr:  expr,
		Value: strconv.FormatFloat(value, 'f', -1, 64),
		Text:  group(strconv.FormatFloat(value/scale, 'f', decimals, 64)),
		Unit:  unit,
		Scale: strconv.FormatFloat(scale, 'g', -1, 64),
	}
}

// formats are the forms of a figure, by the name that templates call them by.
var formats = map[string]func(expr string, value float64) figure{
	"count": func(expr string, value float64) figure { return shown(expr, value, 1, 0, "") },
	"ms": func(expr string, value float64) figure {
		if value == 0 {
			return unknown(expr)
		}
		return shown(expr, value, 1, decimals(value), "ms")
	},
	"decimal": func(expr string, value float64) figure { return shown(expr, value, 1, 2, "") },
	// time is for times that are compared with each other, of seconds and more.
	"time": func(expr string, value float64) figure { return shown(expr, value, 1e3, decimals(value/1e3), "s") },
	// seconds is for what the file has in seconds.
	"seconds": func(expr string, value float64) figure { return shown(expr, value, 1, decimals(value), "s") },
	"tokens":  func(expr string, value float64) figure { return shown(expr, value, 1, decimals(value), "tokens/s") },
	// mbs is for speeds that are compared with each other: all in MB/s.
	"mbs": func(expr string, value float64) figure {
		if value == 0 {
			return unknown(expr)
		}
		return shown(expr, value, 1, decimals(value), "MB/s")
	},
	"speed": func(expr string, value float64) figure {
		switch {
		case value == 0:
			return unknown(expr)
		case value < 1000:
			return shown(expr, value, 1, decimals(value), "MB/s")
		}
		return shown(expr, value, 1e3, decimals(value/1e3), "GB/s")
	},
	"size": size,
	// held is a size of which 0 says that it was not measured.
	"held": func(expr string, value float64) figure {
		if value == 0 {
			return unknown(expr)
		}
		return size(expr, value)
	},
	"percent": func(expr string, value float64) figure { return shown(expr, value, 0.01, percentDecimals(value), "%") },
	// ratio is for two speeds: 0 says that the upper one was not measured.
	"ratio": func(expr string, value float64) figure {
		if value == 0 {
			return unknown(expr)
		}
		return shown(expr, value, 1, decimals(value), "×")
	},
	"times": func(expr string, value float64) figure { return shown(expr, value, 1, decimals(value), "×") },
}

func size(expr string, value float64) figure {
	for _, u := range []struct {
		name     string
		scale    float64
		decimals int
	}{{"TB", 1e12, 2}, {"GB", 1e9, 2}, {"MB", 1e6, 1}, {"kB", 1e3, 1}} {
		if value >= u.scale {
			return shown(expr, value, u.scale, u.decimals, u.name)
		}
	}
	return shown(expr, value, 1, 0, "bytes")
}

// figure formats the value of an expression.
func (v values) figure(format, expr string) (figure, error) {
	value, err := v.eval(expr)
	if err != nil {
		return figure{}, err
	}
	if math.IsNaN(value) {
		return unknown(expr), nil
	}
	return formats[format](expr, value), nil
}

// word shows a text of the results as it is.
func (v values) word(place string) (figure, error) {
	at, err := v.lookup(place)
	if err != nil {
		return figure{}, err
	}
	text, ok := at.(string)
	if !ok {
		return figure{}, fmt.Errorf("%s is not a text", place)
	}
	if text == "" {
		return figure{Expr: place, Text: "unknown"}, nil
	}
	return figure{Expr: place, Value: text, Text: text}, nil
}

// flag shows a flag, or the conjunction of several, in the words given.
func (v values) flag(expr, yes, no string) (figure, error) {
	value, err := v.eval(expr)
	if err != nil {
		return figure{}, err
	}
	if value == 1 {
		return figure{Expr: expr, Value: "true", Text: yes}, nil
	}
	return figure{Expr: expr, Value: "false", Text: no}, nil
}

// noun returns the form of a noun that goes with a count.
func (v values) noun(expr, one, many string) (string, error) {
	value, err := v.eval(expr)
	if value == 1 {
		return one, err
	}
	return many, err
}

// decimals shows three digits, and all of those before the point.
func decimals(value float64) int {
	switch {
	case value >= 99.95:
		return 0
	case value >= 9.995:
		return 1
	}
	return 2
}

func percentDecimals(value float64) int {
	if percent := value * 100; math.Abs(percent-math.Round(percent)) < 0.05 {
		return 0
	}
	return 1
}

// group puts commas between the thousands.
func group(number string) string {
	whole, fraction, hasFraction := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if hasFraction {
		whole += "." + fraction
	}
	return sign + whole
}
