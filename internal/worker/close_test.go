package worker

import "testing"

// A handler may outlast Close, as when its client does not go: it answers, and
// publishes nothing.
func TestNothingIsPublishedAfterClose(t *testing.T) {
	r := start(t, newStore(t), nil, "-c", "1024", "-np", "1")
	r.worker.Close()
	prompt := r.tokens("c", 600)
	if a := r.ask(greedy(prompt)); a.Content == "" || a.Timings.PromptTokens+a.Timings.CacheTokens != len(prompt) {
		t.Errorf("answer %.500s", a.raw)
	}
	if stats := r.worker.Status().Pages; stats.PagesPublished != 0 {
		t.Errorf("%d pages were published", stats.PagesPublished)
	}
}
