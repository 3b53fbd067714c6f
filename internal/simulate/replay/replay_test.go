package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/results"
	"ollamoon/internal/simulate"
	"ollamoon/internal/simulate/trace"
	"ollamoon/internal/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A stub is a router and workers that know what workers share of a prompt, and
// compute nothing.
type stub struct {
	*httptest.Server
	role, state string
	mu          struct {
		sync.Mutex
		stored    map[string]bool
		published int
		asked     [][]int32
	}
}

func newStub(t *testing.T) *stub {
	s := &stub{role: "mixed", state: "healthy"}
	s.mu.stored = map[string]bool{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const page = 256
	switch r.URL.Path {
	case "/ollamoon/status":
		fmt.Fprintf(w, `{"workers":[{"id":"a","url":"%[1]s/w","state":%[2]q,"slots":4,"running":1},{"id":"b","url":"%[1]s/w","state":%[2]q,"slots":4}]}`, s.URL, s.state)
	case "/w/ollamoon/status":
		// Both have published half of it.
		fmt.Fprintf(w, `{"sharing":true,"role":%q,"page_tokens":%d,"pages":{"published":%d,"bytes_published":%d}}`, s.role, page, s.mu.published, s.mu.published*page*1000)
	case "/w/ollamoon/metrics":
		fmt.Fprintf(w, "# HELP x\nollamoon_phase_seconds_sum{phase=\"save\"} %g\nollamoon_phase_seconds_sum{phase=\"publish\"} %g\n",
			1e-6*float64(s.mu.published), 1e-6*float64(s.mu.published))
	case "/completion", "/w/completion":
		s.complete(w, r, page)
	default:
		http.NotFound(w, r)
	}
}

func (s *stub) complete(w http.ResponseWriter, r *http.Request, page int) {
	var body struct {
		Prompt   []int32
		NPredict int `json:"n_predict"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Prompt) > 4096 {
		http.Error(w, "the prompt does not fit", http.StatusBadRequest)
		return
	}
	s.mu.asked = append(s.mu.asked, body.Prompt)
	key := func(pages int) string { return fmt.Sprint(body.Prompt[:pages*page]) }
	hits := 0
	for hits < (len(body.Prompt)-1)/page && s.mu.stored[key(hits+1)] {
		hits++
	}
	for i := 1; i <= (len(body.Prompt)-64)/page; i++ {
		if !s.mu.stored[key(i)] {
			s.mu.stored[key(i)] = true
			s.mu.published++
		}
	}
	if hits > 0 {
		w.Header().Set(worker.TokensHeader, fmt.Sprintf("store=%d", hits*page))
		w.Header().Set(worker.TimingHeader, fmt.Sprintf("lookup;dur=0.1, load;dur=%d, restore;dur=%d", hits, hits))
	}
	computed := len(body.Prompt) - hits*page
	fmt.Fprintf(w, "data: {\"content\":\"x\",\"stop\":false}\n\ndata: {\"stop\":true,\"timings\":{\"cache_n\":%d,\"prompt_n\":%d,\"prompt_ms\":%g,\"predicted_n\":%d,\"predicted_ms\":%d}}\n\n",
		hits*page, computed, float64(computed)/100, body.NPredict, body.NPredict)
}

// A cluster that does what the simulator's does has the same hits; its costs are
// measured, and its prompts are those of the trace.
func TestReplay(t *testing.T) {
	s := newStub(t)
	small := trace.Small(24, 256)
	steps := map[string]int{}
	f, err := Run(t.Context(), Options{URL: s.URL + "/", Trace: small, Name: "small", Stage: func(name string, n int) (func(), func()) {
		steps[name] = -n
		return func() { steps[name]++ }, func() {}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 2 || steps["measuring costs"] != 0 || steps["playing requests"] != 0 {
		t.Errorf("steps not taken: %v", steps)
	}
	if f.Cluster.Hits != f.Trace.IdealHits || f.Simulated.Hits != f.Cluster.Hits || f.Cluster.StoreHits != f.Cluster.Hits || !f.Goals[0].Reached {
		t.Errorf("%d and %d hits of %d: %+v", f.Cluster.Hits, f.Simulated.Hits, f.Trace.IdealHits, f.Goals)
	}
	for i, q := range f.Requests {
		if q.Cluster.Hits != q.Simulated.Hits || q.Tokens != small.Requests[i].Input || q.Cluster.Worker != "a" || q.Cluster.TTFT <= 0 {
			t.Errorf("request %d: %+v", i+1, q)
		}
	}
	c := f.Costs
	near := func(what string, got, want float64) {
		if got < want*0.999 || got > want*1.001 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("prefill", c.Prefill, 100e3)
	near("decode", c.Decode, 1000)
	near("a token", c.KVTokenBytes, 1000)
	near("load, MB/s", c.LoadMBs, 256)
	near("restore, MB/s", c.RestoreMBs, 256)
	if c.SaveMBs <= 0 || c.PublishMBs <= 0 || c.Slots != 4 {
		t.Errorf("%+v", c)
	}
	if n := len(s.mu.asked); n != 4+24 {
		t.Errorf("%d prompts were asked for", n)
	}
	complete(t, f)
}

// complete writes what came of a run in all its forms.
func complete(t *testing.T, f *results.Replay) {
	t.Helper()
	f.GeneratedAt, f.Command, f.Versions = time.Now(), "ollamoon", map[string]string{"ollamoon": "1", "go": "1"}
	f.Host = results.Host{Name: "h", OS: "o", Kernel: "k", CPU: "c", Cores: 1, MemoryBytes: 1}
	data, err := f.JSON()
	if err == nil {
		_, err = results.ParseReplay(data)
	}
	if err != nil {
		t.Error(err)
	}
	var text bytes.Buffer
	if err := Write(&text, f); err != nil || !strings.Contains(text.String(), "goal: requests whose hits differ at most 0 requests: 0, reached") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// Costs may be given. Requests that differ are told.
func TestReplayDiffers(t *testing.T) {
	s := newStub(t)
	costs, err := simulate.ReadCosts("8b-cpu")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Run(t.Context(), Options{URL: s.URL, Trace: trace.Small(2, 256), Name: "small", Costs: &costs})
	if err != nil {
		t.Fatal(err)
	}
	if f.Costs.Name != "8b-cpu" || f.Costs.Slots != 4 || len(s.mu.asked) != 2 {
		t.Errorf("%+v, %d prompts", f.Costs, len(s.mu.asked))
	}
	var text bytes.Buffer
	f.Requests[1].Simulated.Hits++
	f.Goals = goals(f)
	if err := Write(&text, f); err != nil || !strings.Contains(text.String(), "at most 0 requests: 1, NOT reached") {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestReplayRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*stub, *Options)
		want  error
		says  string
	}{
		"decode workers":       {func(s *stub, _ *Options) { s.role = "decode" }, ErrCluster, "--prefill 0"},
		"a worker that is ill": {func(s *stub, _ *Options) { s.state = "draining" }, ErrCluster, "draining"},
		"no router":            {func(_ *stub, o *Options) { o.URL += "/w" }, ErrCluster, "--url"},
		"nothing":              {func(_ *stub, o *Options) { o.URL += "/x" }, ErrAnswer, "404"},
		"other pages":          {func(_ *stub, o *Options) { o.Trace = trace.Small(2, 300) }, ErrOptions, "256"},
		"a prompt too long": {func(_ *stub, o *Options) {
			o.Trace.Requests[1].Input, o.Trace.Requests[1].Blocks = 5000, make([]int64, 20)
		}, ErrAnswer, "request 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(t)
			o := Options{URL: s.URL, Trace: trace.Small(2, 256), Name: "small"}
			costs, err := simulate.ReadCosts("1b-cpu")
			if err != nil {
				t.Fatal(err)
			}
			o.Costs = &costs
			c.spoil(s, &o)
			if _, err := Run(t.Context(), o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// Blocks of different ids have different tokens, those of one id the same.
func TestPrompts(t *testing.T) {
	p := prompts{run: 7, blockTokens: 256}
	a := p.of(trace.Request{Input: 600, Blocks: []int64{1, 2, 3}})
	b := p.of(trace.Request{Input: 700, Blocks: []int64{1, 2, 4}})
	other := prompts{run: 8, blockTokens: 256}.of(trace.Request{Input: 600, Blocks: []int64{1, 2, 3}})
	if len(a) != 600 || len(b) != 700 || fmt.Sprint(a[:512]) != fmt.Sprint(b[:512]) || a[512] == b[512] || a[0] == other[0] {
		t.Errorf("%d and %d tokens: %v, %v, %v", len(a), len(b), a[510:514], b[510:514], other[0])
	}
	for _, token := range a {
		if token < firstToken || token >= firstToken+tokenKinds {
			t.Fatalf("token %d", token)
		}
	}
}
