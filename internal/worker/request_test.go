package worker

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Names count by their case, and the last of several fields of a name, as they do
// for the engine; or else it would run on another slot than the one that is held.
func TestRequestsAreReadAsTheEngineReadsThem(t *testing.T) {
	for body, want := range map[string]int{
		`{"id_slot":1,"ID_SLOT":-1}`: 1,
		`{"id_slot":0,"id_slot":1}`:  1,
		`{"ID_SLOT":1}`:              anySlot,
		`{"id_slot":-1}`:             anySlot,
		`{"n":2,"N":1}`:              allSlots,
		`{"N":2}`:                    anySlot,
	} {
		r, err := readRequest([]byte(body))
		if err != nil || r.slotWanted() != want {
			t.Errorf("%s: slot %d, %v, want %d", body, r.slotWanted(), err, want)
		}
	}
	for _, body := range []string{"", "[]", "\ufeff{}", "{}x", `{"n":"2"}`, strings.Repeat("[", 20000)} {
		if _, err := readRequest([]byte(body)); err == nil {
			t.Errorf("%.20q is taken", body)
		}
	}
	// The field that is put in counts, whatever the client has sent.
	r, err := readRequest(withField([]byte(`{"prompt":"x","id_slot":-1}`), `"id_slot":3`))
	if err != nil || r.slotWanted() != 3 {
		t.Errorf("slot %d, %v", r.slotWanted(), err)
	}
}

// Whoever the engine lets in is held to the queue, however the key is written.
func TestKeysAreTakenAsTheEngineTakesThem(t *testing.T) {
	w := &Worker{config: Config{APIKeys: []string{"one", "two"}}}
	for _, c := range []struct {
		header, value string
		want          bool
	}{
		{"Authorization", "Bearer one", true},
		{"Authorization", "two", true},
		{"X-Api-Key", "one", true},
		{"X-Api-Key", "Bearer two", true},
		{"Authorization", "three", false},
		{"Authorization", "", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/completion", nil)
		r.Header.Set(c.header, c.value)
		if got := w.authorized(r); got != c.want {
			t.Errorf("%s: %s: %t", c.header, c.value, got)
		}
	}
}
