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

// An answer says what came from the store, and what that took; one of which
// nothing did has no header that the engine's would not have.
func TestAnswersSayWhatWasLoaded(t *testing.T) {
	s := newStore(t)
	args := []string{"-c", "1024", "-np", "1"}
	first := start(t, s, nil, args...)
	prompt := first.tokens("h", 600)
	header := first.header(greedy(prompt))
	if header.Get(TokensHeader) != "" || header.Get(TimingHeader) != "" {
		t.Errorf("a computed prompt's headers: %v", header)
	}
	first.worker.publishes.Wait()
	second := start(t, s, nil, args...)
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
	if header = second.header(greedy(prompt)); header.Get(TokensHeader) != "" {
		t.Errorf("what a slot still has is said to be loaded: %v", header)
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
