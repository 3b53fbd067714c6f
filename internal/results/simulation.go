package results

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// SimulationSchema is the JSON schema (draft 2020-12) of a Simulation file.
//
//go:embed simulation.schema.json
var SimulationSchema []byte

// A Simulation is one run of simulate: a trace played to clusters of several
// sizes under several policies.
type Simulation struct {
	SchemaVersion int               `json:"schema_version"` // 1
	Kind          string            `json:"kind"`           // SimulationKind
	GeneratedAt   time.Time         `json:"generated_at"`
	Command       string            `json:"command"`  // what reproduces it
	Versions      map[string]string `json:"versions"` // by part: ollamoon, go

	Trace SimulatedTrace `json:"trace"`
	Costs SimulatedCosts `json:"costs"`
	Seed  uint64         `json:"seed"`
	// WorkerCacheBytes is the size of each worker's own cache. EqualMemory: where
	// there is no store, each has an equal part of the store's size besides.
	WorkerCacheBytes int64 `json:"worker_cache_bytes"`
	EqualMemory      bool  `json:"equal_memory"`
	// Saves says when workers save what they publish.
	Saves string `json:"saves"`

	Runs []SimulatedRun `json:"runs"`
}

// SimulationKind tells a simulation's file from others.
const SimulationKind = "simulation"

// A SimulatedTrace is what was played.
type SimulatedTrace struct {
	Name          string  `json:"name"`
	Requests      int     `json:"requests"`
	Seconds       float64 `json:"seconds"` // on its own clock
	InputTokens   int64   `json:"input_tokens"`
	OutputTokens  int64   `json:"output_tokens"`
	BlockTokens   int     `json:"block_tokens"`
	PageTokens    int     `json:"page_tokens"`
	Pages         int     `json:"pages"` // of all prompts
	DistinctPages int     `json:"distinct_pages"`
	IdealHits     int     `json:"ideal_hits"` // of a store that never forgets, in pages
}

// SimulatedCosts are what work takes on each worker, as package simulate has them.
type SimulatedCosts struct {
	Name         string   `json:"name"`
	Prefill      float64  `json:"prefill_tokens_s"`
	Decode       float64  `json:"decode_tokens_s"`
	BesideMS     float64  `json:"beside_ms"`
	BatchTokens  int      `json:"batch_tokens"`
	Slots        int      `json:"slots"`
	KVTokenBytes float64  `json:"kv_token_bytes"`
	LoadMBs      float64  `json:"load_mb_s"`
	PublishMBs   float64  `json:"publish_mb_s"`
	LookupMS     float64  `json:"lookup_ms"`
	RestoreMBs   float64  `json:"restore_mb_s"` // 0: it takes no time
	SaveMBs      float64  `json:"save_mb_s"`    // 0: it takes no time
	Sources      []string `json:"sources"`
}

// A SimulatedRun is one cluster under one policy.
type SimulatedRun struct {
	Policy  string  `json:"policy"`
	Workers int     `json:"workers"`
	Load    float64 `json:"load"` // prompts' tokens over what all engines could compute
	// StorePart is the store's size as a part of the trace's distinct pages; 0 without
	// a store.
	StorePart  float64 `json:"store_part"`
	StoreBytes int64   `json:"store_bytes"` // that size

	Hits    int     `json:"hits"`     // pages that were not computed
	OwnHits int     `json:"own_hits"` // of them from the worker's own cache
	HitRate float64 `json:"hit_rate"`
	OfIdeal float64 `json:"of_ideal"` // hits over ideal hits

	TTFT      Percentiles `json:"ttft_ms"`
	TotalMS   float64     `json:"total_ms"`  // to the last token, mean
	Seconds   float64     `json:"seconds"`   // from the first request to the last token
	Imbalance float64     `json:"imbalance"` // the busiest engine's time with prompts over the mean
	Busy      float64     `json:"busy"`      // part of the time that engines had a prompt

	UsedBytes      int64   `json:"used_bytes"` // in the store at the end
	LoadedBytes    int64   `json:"loaded_bytes"`
	PublishedBytes int64   `json:"published_bytes"`
	TrafficMBs     float64 `json:"traffic_mb_s"` // both, over Seconds
	EvictedPages   int64   `json:"evicted_pages"`
}

// Percentiles describe many timings, in milliseconds.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// Write writes the file, whole or not at all.
func (f *Simulation) Write(path string) error { return write(path, f) }

// JSON returns what Write writes.
func (f *Simulation) JSON() ([]byte, error) { return encode(f) }

// Kind returns the kind that a file of results names; empty for those of the demo,
// and for what is none.
func Kind(data []byte) string {
	var f struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(data, &f) != nil {
		return ""
	}
	return f.Kind
}

// ParseSimulation checks data against the schema and its figures against each
// other, and decodes it. The error names every place that is wrong.
func ParseSimulation(data []byte) (*Simulation, error) {
	var f Simulation
	if err := decode(data, simulationSchema, &f); err != nil {
		return nil, err
	}
	if found := f.contradictions(); len(found) > 0 {
		return nil, problems(found)
	}
	return &f, nil
}

// contradictions lists what a schema cannot say.
func (f *Simulation) contradictions() []string {
	var found []string
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if f.Trace.DistinctPages > f.Trace.Pages || f.Trace.IdealHits > f.Trace.Pages {
		wrong("at '/trace': %d distinct pages and %d ideal hits of %d pages", f.Trace.DistinctPages, f.Trace.IdealHits, f.Trace.Pages)
	}
	for i, r := range f.Runs {
		r.contradictions(fmt.Sprintf("/runs/%d", i), f.Trace, wrong)
	}
	return found
}

func (r *SimulatedRun) contradictions(place string, t SimulatedTrace, wrong func(format string, args ...any)) {
	const rounding = 1e-9
	if r.OwnHits > r.Hits || r.Hits > t.Pages {
		wrong("at '%s/hits': %d, %d of them own, of %d pages", place, r.Hits, r.OwnHits, t.Pages)
	}
	if t.Pages > 0 && math.Abs(r.HitRate-float64(r.Hits)/float64(t.Pages)) > rounding {
		wrong("at '%s/hit_rate': %g, with %d hits of %d pages", place, r.HitRate, r.Hits, t.Pages)
	}
	if t.IdealHits > 0 && math.Abs(r.OfIdeal-float64(r.Hits)/float64(t.IdealHits)) > rounding {
		wrong("at '%s/of_ideal': %g, with %d hits of %d", place, r.OfIdeal, r.Hits, t.IdealHits)
	}
	if !slices.IsSorted([]float64{r.TTFT.P50, r.TTFT.P90, r.TTFT.P99, r.TTFT.Max}) || r.TTFT.Mean > r.TTFT.Max*(1+rounding) {
		wrong("at '%s/ttft_ms': p50, p90, p99, mean and max are out of order", place)
	}
	if r.UsedBytes > r.StoreBytes {
		wrong("at '%s/used_bytes': %d of %d", place, r.UsedBytes, r.StoreBytes)
	}
	if r.StorePart == 0 && r.StoreBytes > 0 {
		wrong("at '%s/store_bytes': %d, without a store", place, r.StoreBytes)
	}
}
