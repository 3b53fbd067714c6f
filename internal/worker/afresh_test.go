package worker

import "testing"

// A short prompt leaves a template's first words on a slot, as rows that are not
// sound. A long chat with the same ones is published all the same.
func TestAChatAfterAShortOneIsPublished(t *testing.T) {
	s := newStore(t)
	r := start(t, s, nil, "-c", "1024", "-np", "1", "--cache-ram", "0")
	chat := func(text string) {
		r.post("/v1/chat/completions", map[string]any{
			"messages": []any{map[string]any{"role": "user", "content": text}}, "max_tokens": 4, "temperature": 0,
		})
		r.worker.publishes.Wait()
	}
	published := func() int64 { return r.worker.Status().Pages.PagesPublished }
	chat("hello")
	chat("hello again")
	if got := published(); got != 0 {
		t.Errorf("%d pages of short chats published", got)
	}
	chat(text(120, "long"))
	if got := published(); got < 1 {
		t.Errorf("%d pages published after short chats", got)
	}
	before := published()
	chat("and now a short one")
	chat(text(120, "other"))
	if got := published(); got <= before {
		t.Errorf("%d pages published, %d before", got, before)
	}
}
