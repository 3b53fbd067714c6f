package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// An answer says what was there before and what that took; one to a prompt of
// which nothing was has no header that the engine's would not have. The observer
// is told the same, once a request, and why others passed through.
func TestAnswersSayWhatWasThere(t *testing.T) {
	s := newStore(t)
	args := []string{"-c", "1024", "-np", "1"}
	first := start(t, s, nil, args...)
	told := first.watched()
	prompt := first.tokens("h", 600)
	header := first.header(greedy(prompt))
	if header.Get(TokensHeader) != "" || header.Get(TimingHeader) != "" {
		t.Errorf("a computed prompt's headers: %v", header)
	}
	first.worker.publishes.Wait()
	got := told.all(t, 1)[0]
	if got.Outcome != Shared || got.Endpoint != "/completion" || got.Tokens != (Tokens{Computed: 600}) || got.LookedUp != 512 || got.Hit != 0 || got.Lookup <= 0 {
		t.Errorf("of a computed prompt: %+v", got)
	}
	if told.mu.saved != 1 || told.mu.published != 1 {
		t.Errorf("%d saves, %d publishes", told.mu.saved, told.mu.published)
	}

	second := start(t, s, nil, args...)
	told = second.watched()
	header = second.header(greedy(prompt))
	if got := header.Get(TokensHeader); got != "store=512" {
		t.Errorf("tokens: %q", got)
	}
	var lookup, load, restore float64
	if _, err := fmt.Sscanf(header.Get(TimingHeader), "lookup;dur=%g, load;dur=%g, restore;dur=%g", &lookup, &load, &restore); err != nil {
		t.Errorf("timing %q: %v", header.Get(TimingHeader), err)
	}
	if lookup <= 0 || load <= 0 || restore <= 0 {
		t.Errorf("timing %q", header.Get(TimingHeader))
	}
	header = second.header(greedy(prompt))
	if got := header.Get(TokensHeader); got != "slot=599" {
		t.Errorf("tokens of what a slot still has: %q", got)
	}
	if _, err := fmt.Sscanf(header.Get(TimingHeader), "lookup;dur=%g", &lookup); err != nil {
		t.Errorf("timing %q: %v", header.Get(TimingHeader), err)
	}
	unshared := greedy(prompt)
	unshared["cache_prompt"] = false
	if header = second.header(unshared); header.Get(TokensHeader) != "" {
		t.Errorf("headers of what passed through: %v", header)
	}
	second.header(greedy("short"))
	events := told.all(t, 4)
	if got := events[0]; got.Tokens != (Tokens{Store: 512, Computed: 88}) || got.LookedUp != 512 || got.Hit != 512 || got.Load <= 0 || got.Restore <= 0 {
		t.Errorf("of a loaded prompt: %+v", got)
	}
	if got := events[1]; got.Tokens != (Tokens{Slot: 599, Computed: 1}) || got.LookedUp != 0 || got.Hit != 0 {
		t.Errorf("of a prompt in its slot: %+v", got)
	}
	if got := events[2]; got.Outcome != ByRequest || got.Tokens != (Tokens{Computed: 600}) || got.Lookup != 0 {
		t.Errorf("of a prompt that is not to be cached: %+v", got)
	}
	if got := events[3]; got.Outcome != Short || got.Tokens.Computed == 0 {
		t.Errorf("of a short prompt: %+v", got)
	}
	status := second.worker.Status()
	if each := status.Each; len(each) != 1 || each[0] != (SlotStatus{Unknown: true}) {
		t.Errorf("the slot: %+v", status.Each)
	}
}

// header asks for a completion and returns the answer's headers.
func (r *running) header(body map[string]any) http.Header {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/completion", bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, response.Body) // who leaves early has its slot forgotten
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		r.t.Fatalf("status %d, %v", response.StatusCode, err)
	}
	return response.Header
}
