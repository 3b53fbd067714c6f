// Package results is the shape of the results file: what a run of the demo
// measured, where and with what. The benchmark writes it, the report reads it,
// results.schema.json describes it for everyone else.
//
// Units: bytes are bytes, MB is 10^6 bytes, times are milliseconds. Figures are
// measured by the run that wrote the file; nothing here is computed from
// constants.
package results

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Schema is the JSON schema (draft 2020-12) of the file.
//
//go:embed results.schema.json
var Schema []byte

// A File is one run's results.
type File struct {
	SchemaVersion int               `json:"schema_version"` // 1
	GeneratedAt   time.Time         `json:"generated_at"`
	Command       string            `json:"command"` // what reproduces it
	Host          Host              `json:"host"`
	Versions      map[string]string `json:"versions"` // by part: ollamoon, go, mooncake, mooncake_wire, python
	Store         Store             `json:"store"`

	Realistic Scenario `json:"realistic"`
	Tiny      Scenario `json:"tiny"`

	// Transfer is ours, by data plane, for the realistic layout.
	Transfer Transfer `json:"transfer"`
	Peer     Peer     `json:"peer"`
	Limit    Limit    `json:"limit"`

	// Engine is what a real model gained; nil where the run had none.
	Engine *Engine `json:"engine,omitempty"`
}

// Host is the machine of the run.
type Host struct {
	Name        string `json:"name"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes uint64 `json:"memory_bytes"`
}

// Store is the Mooncake Store of the run.
type Store struct {
	Metadata     string `json:"metadata"` // "http" or "P2PHANDSHAKE"
	SegmentBytes int64  `json:"segment_bytes"`
	Seal         string `json:"seal"` // "checksum", "mac" or "none"
}

// Layout is a page's geometry, as package page has it.
type Layout struct {
	Layers       int `json:"layers"`
	KVHeads      int `json:"kv_heads"`
	HeadDim      int `json:"head_dim"`
	PageTokens   int `json:"page_tokens"`
	ElementBytes int `json:"element_bytes"`
}

// A Scenario is what happened to request B after request A had published its
// pages: how many tokens of B came from the store.
type Scenario struct {
	Layout        Layout `json:"layout"`
	Tokens        int    `json:"tokens"`         // of each request
	TokensSkipped int    `json:"tokens_skipped"` // of B: prefill not needed
	Pages         int    `json:"pages"`          // full pages of B
	PagesHit      int    `json:"pages_hit"`      // of them served from the store
	// PageOutcomes has one element a page of B, in order: "hit" or "computed".
	PageOutcomes []string `json:"page_outcomes"`
	PageBytes    int      `json:"page_bytes"`   // payload of a page
	ObjectBytes  int      `json:"object_bytes"` // with its seal
	// Published is how many pages A stored newly, BPublished how many B added.
	Published  int `json:"published"`
	BPublished int `json:"b_published"`
	// Verified: every loaded byte of every reload equalled what was published.
	Verified      bool  `json:"verified"`
	VerifiedBytes int64 `json:"verified_bytes"`
}

// Transfer holds our figures by plane.
type Transfer struct {
	TCP          Measurement `json:"tcp"`
	SharedMemory Measurement `json:"shared_memory"`
}

// Peer holds the figures of others who do the same.
type Peer struct {
	PythonClient Measurement `json:"python_client"`
}

// A Measurement is one client publishing the pages of A and reloading the
// shared pages of B.
type Measurement struct {
	PublishBytes int64   `json:"publish_bytes"`
	PublishMS    float64 `json:"publish_ms"`
	PublishMBs   float64 `json:"publish_mb_s"`
	// PublishRoundsMBs are all rounds, each into a store without these pages; the
	// two figures above are of the median round.
	PublishRoundsMBs []float64 `json:"publish_rounds_mb_s"`

	ReloadBytes int64   `json:"reload_bytes"` // of one reload
	ReloadMS    Spread  `json:"reload_ms"`
	ReloadMBs   float64 `json:"reload_mb_s"` // at the median
	Iterations  int     `json:"iterations"`

	// LoopbackBytes is what the loopback interface carried during the timed
	// reloads, read from the kernel's counters.
	LoopbackBytes int64 `json:"loopback_bytes"`
	// HeldBytes is the most memory that the client held beyond the caller's
	// buffers; 0 where it is not known.
	HeldBytes int64 `json:"held_bytes"`
	// Verified: as in Scenario.
	Verified bool `json:"verified"`
}

// Spread describes several timings, in milliseconds.
type Spread struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// Limit is what the machine does without any store.
type Limit struct {
	LoopbackTCPMBs float64 `json:"loopback_tcp_mb_s"` // one stream, the same bytes
	MemcpyMBs      float64 `json:"memcpy_mb_s"`       // one thread
	ChecksumMBs    float64 `json:"checksum_mb_s"`     // the seal's, one thread
	MACMBs         float64 `json:"mac_mb_s"`          // the keyed seal's, on all processors
}

// An Engine is what two llama-servers with a real model did for two prompts of
// one length: the worker of request A computed and published, the one of request
// B loaded what A's prompt shares with B's. A llama-server without Ollamoon did
// both from nothing.
type Engine struct {
	Model          string `json:"model"`
	Build          string `json:"build"` // of llama-server
	PromptTokens   int    `json:"prompt_tokens"`
	TokensSkipped  int    `json:"tokens_skipped"` // of B's: cached, as the engine counts
	PageTokens     int    `json:"page_tokens"`
	PageBytes      int64  `json:"page_bytes"`      // payload of a page
	PublishedPages int64  `json:"published_pages"` // by the worker of A
	PagesLoaded    int64  `json:"pages_loaded"`    // by the worker of B

	// Times to the first token, as the client sees them.
	TTFTComputedMS   float64 `json:"ttft_computed_ms"`   // of B's prompt, without Ollamoon
	TTFTReusedMS     float64 `json:"ttft_reused_ms"`     // of B's prompt, by its worker
	TTFTPublishingMS float64 `json:"ttft_publishing_ms"` // of A's prompt, by its worker
	// Breakdown is where the time of TTFTReusedMS went.
	Breakdown Breakdown `json:"breakdown_ms"`

	// AnswersEqual: both workers' texts and probabilities were, digit for digit,
	// those of the llama-server without Ollamoon. Probabilities is how many of each
	// answer were compared.
	AnswersEqual    bool `json:"answers_equal"`
	GeneratedTokens int  `json:"generated_tokens"` // of each answer
	Probabilities   int  `json:"probabilities"`
}

// A Breakdown of a time, in milliseconds.
type Breakdown struct {
	Lookup  float64 `json:"lookup"`  // telling the prompt's tokens, and asking the store
	Load    float64 `json:"load"`    // reading pages, checking them, writing a slot file of them
	Restore float64 `json:"restore"` // having the engine read that file
	Compute float64 `json:"compute"` // what was left of the prompt, as the engine says
	Other   float64 `json:"other"`   // the rest
}

// Sum is the whole time.
func (b Breakdown) Sum() float64 { return b.Lookup + b.Load + b.Restore + b.Compute + b.Other }

// Read reads a results file. Unknown fields are an error: a figure that nobody
// shows would pass unseen.
func Read(path string) (*File, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	var f File
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("reading results %s: %w", path, err)
	}
	if f.SchemaVersion != 1 {
		return nil, fmt.Errorf("reading results %s: version %d, this program knows 1", path, f.SchemaVersion)
	}
	return &f, nil
}

// Write writes a results file, whole or not at all.
func (f *File) Write(path string) error { return write(path, f) }
