package worker

import (
	"bytes"
	"testing"
)

// twins fails the test unless each page of a prompt that is in the store is the
// one that an engine computes from nothing. It returns how many there are.
func (r *running) twins(what string, tokens []int32) int {
	r.t.Helper()
	pages := r.stored(tokens)
	if len(pages) == 0 {
		return 0
	}
	for i, want := range r.computed(tokens, len(pages)) {
		if !bytes.Equal(pages[i], want) {
			r.t.Errorf("%s: page %d of %d tokens is not that of prefill", what, i, len(tokens))
		}
	}
	return len(pages)
}

// After a context shift a slot of a text that repeats itself holds the same tokens
// as before, and other rows. Prompts that begin with these tokens reuse them, and
// their pages are not published, by whichever interface the first was asked.
func TestShiftedRowsOfARepeatingText(t *testing.T) {
	const period = 500
	for name, ask := range map[string]func(r *running, prompt []int32){
		"whole answer": func(r *running, prompt []int32) {
			body := greedy(prompt)
			body["n_predict"], body["ignore_eos"], body["n_discard"] = 40, true, period
			if got := r.ask(body); !got.Truncated {
				r.t.Error("the context was not shifted")
			}
		},
		"stream": func(r *running, prompt []int32) {
			got := r.post("/v1/completions", map[string]any{
				"prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": true, "n_discard": period, "stream": true,
			})
			if !bytes.Contains(got, []byte("[DONE]")) {
				r.t.Errorf("answer %.300s", got)
			}
			r.worker.publishes.Wait()
		},
	} {
		if name == "stream" && !full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := start(t, newStore(t), nil, "-c", "1024", "-np", "1", "--context-shift", "--keep", "4")
			text := r.tokens("z", period+500)
			repeating := append(append([]int32{}, text[:period]...), text[:period]...)
			ask(r, repeating)
			r.ask(greedy(text[600:700])) // the engine remembers the shifted rows, in order
			other := append(append([]int32{}, text[:period-10]...), text[period:]...)
			got := r.ask(greedy(other))
			if got.Timings.CacheTokens < PageTokens {
				t.Errorf("of rows that were shifted %d are reused", got.Timings.CacheTokens)
			}
			for _, prompt := range [][]int32{repeating, other} {
				if n := r.twins(name, prompt); n != boundary(len(prompt))/PageTokens {
					t.Errorf("%d pages of %d tokens are in the store", n, len(prompt))
				}
			}
		})
	}
}
