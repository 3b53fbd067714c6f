package results

import (
	_ "embed"
	"fmt"
	"slices"
	"time"
)

// ReplaySchema is the JSON schema (draft 2020-12) of a Replay file.
//
//go:embed replay.schema.json
var ReplaySchema []byte

// A Replay is a trace played to a cluster and to a simulated one.
type Replay struct {
	SchemaVersion int               `json:"schema_version"` // 1
	Kind          string            `json:"kind"`           // ReplayKind
	GeneratedAt   time.Time         `json:"generated_at"`
	Command       string            `json:"command"` // what reproduces it
	Host          Host              `json:"host"`    // where it was asked from
	Versions      map[string]string `json:"versions"`

	Trace            SimulatedTrace `json:"trace"`
	Workers          int            `json:"workers"`
	Costs            SimulatedCosts `json:"costs"`
	Saves            string         `json:"saves"`
	WorkerCacheBytes int64          `json:"worker_cache_bytes"`

	Cluster   ReplaySide        `json:"cluster"`
	Simulated ReplaySide        `json:"simulated"`
	Goals     []TTFTGoal        `json:"goals"`
	Requests  []ReplayedRequest `json:"requests"`
}

// ReplayKind tells a replay's file from others.
const ReplayKind = "replay"

// A ReplaySide is what came of all requests on one side.
type ReplaySide struct {
	Hits      int         `json:"hits"`       // pages that were not computed
	StoreHits int         `json:"store_hits"` // of them from the store
	TTFT      Percentiles `json:"ttft_ms"`
}

// Add adds an answer's hits, those of a source being the store's.
func (s *ReplaySide) Add(a ReplayedAnswer, store string) {
	s.Hits += a.Hits
	if a.Source == store {
		s.StoreHits += a.Hits
	}
}

// A ReplayedRequest is one request on both sides.
type ReplayedRequest struct {
	Tokens    int            `json:"tokens"` // of its prompt
	Pages     int            `json:"pages"`  // of it that can be hit
	Cluster   ReplayedAnswer `json:"cluster"`
	Simulated ReplayedAnswer `json:"simulated"`
}

// A ReplayedAnswer is what came of a request on one side.
type ReplayedAnswer struct {
	Worker string  `json:"worker"` // empty: not known
	Hits   int     `json:"hits"`   // pages that were not computed
	Source string  `json:"source"` // of these: store, own, slot or memory; empty without any
	TTFT   float64 `json:"ttft_ms"`
}

// Write writes the file, whole or not at all.
func (f *Replay) Write(path string) error { return write(path, f) }

// JSON returns what Write writes.
func (f *Replay) JSON() ([]byte, error) { return encode(f) }

// ParseReplay checks data against the schema and its figures against each other,
// and decodes it. The error names every place that is wrong.
func ParseReplay(data []byte) (*Replay, error) {
	var f Replay
	if err := decode(data, replaySchema, &f); err != nil {
		return nil, err
	}
	if found := f.contradictions(); len(found) > 0 {
		return nil, problems(found)
	}
	return &f, nil
}

// contradictions lists what a schema cannot say.
func (f *Replay) contradictions() []string {
	var found []string
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if len(f.Requests) != f.Trace.Requests {
		wrong("at '/requests': %d of %d", len(f.Requests), f.Trace.Requests)
	}
	cluster, simulated := 0, 0
	for i, q := range f.Requests {
		if q.Cluster.Hits > q.Pages || q.Simulated.Hits > q.Pages {
			wrong("at '/requests/%d': %d and %d hits of %d pages", i, q.Cluster.Hits, q.Simulated.Hits, q.Pages)
		}
		cluster, simulated = cluster+q.Cluster.Hits, simulated+q.Simulated.Hits
	}
	for _, side := range []struct {
		name string
		ReplaySide
		sum int
	}{{"cluster", f.Cluster, cluster}, {"simulated", f.Simulated, simulated}} {
		if side.Hits != side.sum || side.StoreHits > side.Hits {
			wrong("at '/%s/hits': %d, %d of them from the store; requests have %d", side.name, side.Hits, side.StoreHits, side.sum)
		}
		if t := side.TTFT; !slices.IsSorted([]float64{t.P50, t.P90, t.P99, t.Max}) {
			wrong("at '/%s/ttft_ms': p50, p90, p99 and max are out of order", side.name)
		}
	}
	for i, g := range f.Goals {
		if g.Reached != (g.Most && g.Measured <= g.Want || !g.Most && g.Measured >= g.Want) {
			wrong("at '/goals/%d/reached': %v, with %g for %g", i, g.Reached, g.Measured, g.Want)
		}
	}
	return found
}
