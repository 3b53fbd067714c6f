package worker

import (
	"bytes"
	"regexp"
	"strconv"
)

// A correction puts an answer's figures right where steps of ours computed part
// of the prompt before the request was forwarded: for the engine these tokens
// were cached.
type correction struct {
	tokens int     // computed by steps
	ms     float64 // their time
}

var (
	timingsPattern = regexp.MustCompile(`"timings":\{[^{}]*\}`)
	// In a JSON string the quotes would have a backslash before them.
	cachedPattern    = regexp.MustCompile(`([{,])"cached_tokens":(\d+)`)
	anthropicPattern = regexp.MustCompile(`"cache_read_input_tokens":(\d+),"input_tokens":(\d+)`)
	generatedPattern = regexp.MustCompile(`[{,]"output_tokens":(\d+)`)
	responsesPattern = regexp.MustCompile(`"input_tokens":(\d+),"output_tokens":\d+,"total_tokens":\d+,"input_tokens_details":\{"cached_tokens":(\d+)\}`)
)

// apply returns a piece of an answer, an event or a whole body, with its figures
// put right.
func (c correction) apply(piece []byte) []byte {
	if c.tokens == 0 {
		return piece
	}
	piece = timingsPattern.ReplaceAllFunc(piece, c.timings)
	piece = cachedPattern.ReplaceAllFunc(piece, func(m []byte) []byte {
		parts := cachedPattern.FindSubmatch(m)
		return fmtBytes(parts[1], `"cached_tokens":`, c.less(parts[2]))
	})
	return anthropicPattern.ReplaceAllFunc(piece, func(m []byte) []byte {
		parts := anthropicPattern.FindSubmatch(m)
		cached, input := atoi(parts[1]), atoi(parts[2])
		less := atoi([]byte(c.less(parts[1])))
		return fmtBytes(nil, `"cache_read_input_tokens":`, strconv.Itoa(less), `,"input_tokens":`, strconv.Itoa(input+cached-less))
	})
}

// less is a count of cached tokens without those that steps computed.
func (c correction) less(cached []byte) string { return strconv.Itoa(max(0, atoi(cached)-c.tokens)) }

// timings puts a timings object right.
func (c correction) timings(object []byte) []byte {
	cached, computed, ms := field(object, "cache_n"), field(object, "prompt_n"), field(object, "prompt_ms")
	if cached < 0 || computed < 0 || ms < 0 {
		return object
	}
	moved := min(float64(c.tokens), cached)
	computed += moved
	ms += c.ms
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"cache_n", cached - moved},
		{"prompt_n", computed},
		{"prompt_ms", ms},
		{"prompt_per_token_ms", ms / computed},
		{"prompt_per_second", 1e3 / ms * computed},
	} {
		object = setField(object, f.name, f.value)
	}
	return object
}

var numberEnd = ",}"

// span finds the number of a field in a flat JSON object.
func span(object []byte, name string) (start, end int, ok bool) {
	label := []byte(`"` + name + `":`)
	i := bytes.Index(object, label)
	if i < 0 {
		return 0, 0, false
	}
	start = i + len(label)
	n := bytes.IndexAny(object[start:], numberEnd)
	return start, start + n, n >= 0
}

// field is the value of a field that is a number, or -1.
func field(object []byte, name string) float64 {
	start, end, ok := span(object, name)
	if !ok {
		return -1
	}
	v, err := strconv.ParseFloat(string(object[start:end]), 64)
	if err != nil {
		return -1
	}
	return v
}

func setField(object []byte, name string, value float64) []byte {
	start, end, ok := span(object, name)
	if !ok {
		return object
	}
	number := strconv.FormatFloat(value, 'f', -1, 64)
	return append(append(append([]byte(nil), object[:start]...), number...), object[end:]...)
}

func atoi(b []byte) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0
	}
	return n
}

func fmtBytes(head []byte, parts ...string) []byte {
	out := append([]byte(nil), head...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// figures are what the engine says of a request in its answer: how many of the
// prompt's tokens were cached and how many it computed, if ok, and how many tokens
// it generated.
type figures struct {
	cached, computed, predicted int
	ms                          float64 // of computing the prompt; 0 where it is not told
	ok                          bool
}

// note takes up what a piece of an answer says.
func (f *figures) note(piece []byte) {
	if cached, computed, ok := timingsOf(piece); ok {
		f.cached, f.computed, f.ok = cached, computed, true
	}
	if object := timingsPattern.Find(piece); object != nil {
		f.predicted = max(f.predicted, int(field(object, "predicted_n")))
		f.ms = max(f.ms, field(object, "prompt_ms"))
	}
	if parts := generatedPattern.FindSubmatch(piece); parts != nil {
		f.predicted = max(f.predicted, atoi(parts[1]))
	}
}

// timingsOf returns what the engine says of a prompt in a piece of an answer:
// how many tokens were cached, and how many it computed.
func timingsOf(piece []byte) (cached, computed int, ok bool) {
	if object := timingsPattern.Find(piece); object != nil {
		c, p := field(object, "cache_n"), field(object, "prompt_n")
		return int(c), int(p), c >= 0 && p >= 0
	}
	if parts := anthropicPattern.FindSubmatch(piece); parts != nil {
		return atoi(parts[1]), atoi(parts[2]), true
	}
	if parts := responsesPattern.FindSubmatch(piece); parts != nil {
		cached = atoi(parts[2])
		return cached, atoi(parts[1]) - cached, true
	}
	return 0, 0, false
}
