package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ollamoon/connector"
	"ollamoon/internal/worker"
	"ollamoon/store"
	"ollamoon/store/breaker"
	"ollamoon/store/faulty"
	"ollamoon/store/memory"
	"ollamoon/store/storetest"
)

var update = flag.Bool("update", false, "write the reference")

// The reference is that of the table.
func TestReference(t *testing.T) {
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Error("docs/metrics.md is another table's; run go test ./internal/metrics -update")
	}
}

// scrape returns what is served.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, string(body), err)
	}
	return string(body)
}

// value returns the value of a series, such as name{label="value"}.
func value(t *testing.T, text, series string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(prefix+series) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in\n%s", series, text)
	}
	return found[1]
}

func equals(t *testing.T, text, series string, want any) {
	t.Helper()
	if got := value(t, text, series); got != fmt.Sprint(want) {
		t.Errorf("%s is %s, want %v", series, got, want)
	}
}

// Before anything has happened every metric of the table is there, all counts
// at 0, and nothing else is.
func TestAllAreThereFromTheStart(t *testing.T) {
	body := scrape(t, New(func() Snapshot { return Snapshot{} }))
	for _, d := range table {
		if !strings.Contains(body, "# HELP "+d.name+" ") {
			t.Errorf("%s is not there", d.name)
		}
		suffix := map[kind]string{histogram: "_count"}[d.kind]
		for _, row := range d.combinations() {
			var labels []string
			for i, l := range d.labels {
				labels = append(labels, fmt.Sprintf("%s=%q", l.name, row[i]))
			}
			slices.Sort(labels)
			series := strings.TrimPrefix(d.name, prefix) + suffix
			if len(labels) > 0 {
				series += "{" + strings.Join(labels, ",") + "}"
			}
			if got := value(t, body, series); got != "0" && series != `store_breaker_state{state="not_opened"}` {
				t.Errorf("%s is %s", series, got)
			}
		}
	}
	if got := strings.Count(body, "# HELP "); got != len(table) {
		t.Errorf("%d metrics, the table has %d", got, len(table))
	}
}

// Tokens add up, and lookups and hits come from one event.
func TestCompletions(t *testing.T) {
	m := New(func() Snapshot { return Snapshot{} })
	m.Completed(worker.Completion{
		Endpoint: "/completion", Outcome: worker.Shared, Tokens: worker.Tokens{Store: 512, Computed: 88},
		LookedUp: 512, Hit: 512, Lookup: time.Millisecond, Load: 20 * time.Millisecond, Restore: 10 * time.Millisecond,
	})
	m.Completed(worker.Completion{
		Endpoint: "/completion", Outcome: worker.Shared, Tokens: worker.Tokens{Slot: 599, Computed: 1}, Lookup: time.Millisecond,
	})
	m.Completed(worker.Completion{Endpoint: "/infill", Outcome: worker.OtherEndpoint, Tokens: worker.Tokens{Memory: 7, Computed: 30}})
	m.Saved(time.Second, nil)
	m.Published(time.Second, nil)
	m.Published(time.Second, errors.New("full"))
	body := scrape(t, m)
	for series, want := range map[string]any{
		`requests_total{endpoint="/completion",outcome="shared"}`:      2,
		`requests_total{endpoint="/infill",outcome="endpoint"}`:        1,
		`prompt_tokens_total{source="slot"}`:                           599,
		`prompt_tokens_total{source="memory"}`:                         7,
		`prompt_tokens_total{source="store"}`:                          512,
		`prompt_tokens_total{source="computed"}`:                       119,
		`lookup_tokens_total`:                                          512,
		`hit_tokens_total`:                                             512,
		`phase_seconds_count{phase="lookup"}`:                          2,
		`phase_seconds_count{phase="load"}`:                            1,
		`phase_seconds_count{phase="restore"}`:                         1,
		`phase_seconds_count{phase="save"}`:                            1,
		`phase_seconds_sum{phase="publish"}`:                           2,
		`publish_failures_total{phase="save"}`:                         0,
		`publish_failures_total{phase="publish"}`:                      1,
		`requests_total{endpoint="/v1/responses",outcome="malformed"}`: 0,
	} {
		equals(t, body, series, want)
	}
}

func TestSnapshot(t *testing.T) {
	now := Snapshot{Version: "v1", Engine: "b1-x", Reason: "the store is \"down\""}
	m := New(func() Snapshot { return now })
	body := scrape(t, m)
	equals(t, body, `sharing`, 0)
	equals(t, body, `sharing_info{reason="the store is \"down\""}`, 1)
	now = Snapshot{
		Version: "v1", Engine: "b1-x", Sharing: true, Breaker: &breaker.Status{State: breaker.HalfOpen, Refused: 4, Opened: 2},
		Worker: worker.Status{
			Slots: 4, Free: 1, Waiting: 2, NoRoom: 3, PageLoad: 5 * time.Millisecond, TokenCompute: 250 * time.Microsecond,
			Pages: connector.Stats{
				PagesLookedUp: 9, PagesHit: 7, BytesLoaded: 700, PagesPublished: 3, BytesPublished: 300,
				Rejected: map[string]int64{"sum": 2}, PagesDiscarded: 1, DiscardFailures: 1,
			},
		},
	}
	body = scrape(t, m)
	for series, want := range map[string]any{
		`sharing`: 1, `sharing_info{reason=""}`: 1, `slots`: 4, `slots_busy`: 3, `requests_waiting`: 2, `slot_files_refused_total`: 3,
		`page_load_estimate_seconds`: 0.005, `token_compute_estimate_seconds`: 0.00025,
		`pages_loaded_total`: 7, `loaded_bytes_total`: 700, `pages_published_total`: 3, `published_bytes_total`: 300,
		`pages_rejected_total{reason="sum"}`: 2, `pages_rejected_total{reason="foreign"}`: 0,
		`pages_discarded_total`: 1, `page_discard_failures_total`: 1,
		`store_breaker_state{state="half_open"}`: 1, `store_breaker_state{state="closed"}`: 0, `store_breaker_state{state="not_opened"}`: 0,
		`store_breaker_opened_total`: 2, `store_calls_refused_total`: 4,
	} {
		equals(t, body, series, want)
	}
	if !strings.Contains(body, `ollamoon_build_info{engine="b1-x",go_version="go`) {
		t.Error("no versions")
	}
}

// A store whose calls are counted is the store beneath in all else.
func TestStore(t *testing.T) {
	m := New(func() Snapshot { return Snapshot{} })
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) store.Store {
			s, err := memory.New(storetest.RoomBytes)
			if err != nil {
				t.Fatal(err)
			}
			return m.Store(faulty.New(s))
		},
		Corrupt: func(_ *testing.T, s store.Store, key string, offset int) {
			s.(*timedStore).Beneath().(*faulty.Store).Add(faulty.Fault{
				Ops: faulty.Get, Keys: faulty.Key(key), Times: 1, Change: func(b []byte) { b[offset] ^= 0x40 },
			})
		},
	})
}

func TestStoreCalls(t *testing.T) {
	beneath, err := memory.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	f := faulty.New(beneath)
	m := New(func() Snapshot { return Snapshot{} })
	s := m.Store(f)
	defer s.Close() //nolint:errcheck // a test
	ctx := t.Context()
	item := func(key string) store.Item { return store.Item{Key: key, Bytes: make([]byte, 8)} }
	s.BatchPut(ctx, []store.Item{item("a"), item("b")})
	s.BatchPut(ctx, []store.Item{item("a")})
	s.BatchGet(ctx, []store.Item{item("a"), item("missing")})
	f.Add(faulty.Fault{Ops: faulty.Get, Keys: faulty.Key("b"), Err: fmt.Errorf("%w: no route", store.ErrUnavailable)},
		faulty.Fault{Ops: faulty.Exist, Err: fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded)},
		faulty.Fault{Ops: faulty.Discard, Err: errors.New("a surprise")})
	s.BatchGet(ctx, []store.Item{item("a"), item("b")})
	_, _ = s.BatchExist(ctx, []string{"a", "b"})
	_ = s.Discard(ctx, "a")
	body := scrape(t, m)
	for series, want := range map[string]any{
		`store_call_seconds_count{operation="put"}`:                       2,
		`store_call_seconds_count{operation="get"}`:                       2,
		`store_call_seconds_count{operation="exist"}`:                     1,
		`store_call_seconds_count{operation="discard"}`:                   1,
		`store_call_failures_total{kind="unavailable",operation="get"}`:   1,
		`store_call_failures_total{kind="deadline",operation="exist"}`:    1,
		`store_call_failures_total{kind="unavailable",operation="exist"}`: 0,
		`store_call_failures_total{kind="other",operation="discard"}`:     1,
		`store_call_failures_total{kind="other",operation="put"}`:         0,
		`store_call_failures_total{kind="canceled",operation="get"}`:      0,
		`store_call_seconds_bucket{operation="discard",le="+Inf"}`:        1,
		`store_call_failures_total{kind="closed",operation="discard"}`:    0,
	} {
		equals(t, body, series, want)
	}
}
