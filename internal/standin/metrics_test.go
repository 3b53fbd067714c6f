package standin

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/worker"
)

// metric returns the value of a series that the stand-in serves.
func (r *running) metric(series string) float64 {
	r.t.Helper()
	code, body, _ := r.ask(http.MethodGet, metricsPath, "")
	found := regexp.MustCompile(`(?m)^ollamoon_` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(body)
	if code != http.StatusOK || found == nil {
		r.t.Fatalf("%d, no %s in\n%s", code, series, body)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return value
}

func (r *running) metrics(want map[string]float64) {
	r.t.Helper()
	for series, value := range want {
		if got := r.metric(series); got != value {
			r.t.Errorf("%s is %v, want %v", series, got, value)
		}
	}
}

// A store that cannot be opened at the start is tried again, and shared through
// when it is there. Meanwhile requests are served. The metrics and the status tell
// of all of it.
func TestSharesWhenTheStoreComes(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pages")
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // in its way
		t.Fatal(err)
	}
	r := standing(t, "OLLAMOON_STORE=file:"+folder).serve(t, model(t)...)
	s := r.status()
	if s.Sharing || !strings.Contains(s.Reason, "tried again") || s.StoreState.Breaker != "not opened" || s.Engine.Build == "" || s.Version.Go == "" {
		t.Errorf("status %+v", s)
	}
	r.complete("one two three")
	r.metrics(map[string]float64{
		`sharing`: 0, `store_breaker_state{state="not_opened"}`: 1, `lookup_tokens_total`: 0, `slots`: 0,
		`requests_total{endpoint="/completion",outcome="nothing_shared"}`: 1,
	})

	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(wait); !r.status().Sharing; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not share: %+v", r.status())
		}
	}
	text := prompt(45, "goat")
	first, again := r.complete(text), r.complete(text)
	total := first.Timings.Computed
	if again.Content != first.Content || first.Timings.Cached > worker.DefaultPageTokens/4 {
		t.Errorf("%+v, then %+v", first, again)
	}
	pages := float64((total + first.Timings.Cached) / worker.DefaultPageTokens)
	for deadline := time.Now().Add(wait); r.metric(`pages_published_total`) < pages; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is published")
		}
	}
	r.metrics(map[string]float64{
		`sharing`: 1, `sharing_info{reason=""}`: 1, `store_breaker_state{state="closed"}`: 1, `slots`: 1, `slots_busy`: 0,
		`requests_total{endpoint="/completion",outcome="shared"}`: 2,
		`prompt_tokens_total{source="slot"}`:                      float64(first.Timings.Cached + again.Timings.Cached),
		`prompt_tokens_total{source="store"}`:                     0,
		`prompt_tokens_total{source="computed"}`:                  float64(total + again.Timings.Computed),
		`lookup_tokens_total`:                                     pages * worker.DefaultPageTokens,
		`hit_tokens_total`:                                        0,
		`phase_seconds_count{phase="lookup"}`:                     2,
		`phase_seconds_count{phase="save"}`:                       1,
		`store_call_seconds_count{operation="put"}`:               1,
	})
	s = r.status()
	each := fmt.Sprint(s.Slots.Each)
	if s.StoreState.Breaker != "closed" || s.Estimates.PageComputeMS <= 0 || s.PageTokens != worker.DefaultPageTokens ||
		each != fmt.Sprintf("[{false %d %d false}]", total+first.Timings.Cached, s.Slots.Each[0].Sound) || s.Slots.Each[0].Sound < worker.DefaultPageTokens {
		t.Errorf("status %+v", s)
	}
	if log := r.errs.String(); strings.Count(log, logPrefix) != 2 || !strings.Contains(log, "prompts are not shared") || !strings.Contains(log, "prompts are shared") {
		t.Errorf("lines of ours in\n%s", log)
	}
}

func TestEstimates(t *testing.T) {
	if got := estimated(worker.Status{PageTokens: 256}); got != (EstimatesStatus{}) {
		t.Errorf("before the first: %+v", got)
	}
	want := EstimatesStatus{PageLoadMS: 5, TokenComputeMS: 0.25, PageComputeMS: 64, BreakEvenTokens: 20}
	if got := estimated(worker.Status{PageTokens: 256, PageLoad: 5 * time.Millisecond, TokenCompute: 250 * time.Microsecond}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
