package results

import (
	_ "embed"
	"fmt"
	"os"
	"time"
)

// TTFTSchema is the JSON schema (draft 2020-12) of a TTFT file.
//
//go:embed ttft.schema.json
var TTFTSchema []byte

// A TTFT is one run of bench ttft: times to the first token of a model's prompts,
// and what sharing them costs.
type TTFT struct {
	SchemaVersion int               `json:"schema_version"` // 1
	GeneratedAt   time.Time         `json:"generated_at"`
	Command       string            `json:"command"` // what reproduces it
	Host          Host              `json:"host"`
	Versions      map[string]string `json:"versions"` // by part: ollamoon, go, mooncake, llama
	Model         Model             `json:"model"`

	Prompts   []Prompt   `json:"prompts"` // the shortest first
	Overhead  Overhead   `json:"overhead"`
	Memory    Memory     `json:"memory"`
	BreakEven BreakEven  `json:"break_even"`
	Goals     []TTFTGoal `json:"goals"`
}

// A Model is what the engines of a run had loaded.
type Model struct {
	Name       string `json:"name"`
	Threads    int    `json:"threads"` // of each engine; one works at a time
	PageTokens int    `json:"page_tokens"`
	TokenBytes int64  `json:"token_bytes"` // of the cache
}

// A Prompt is what was measured with prompts of one length.
type Prompt struct {
	Tokens int   `json:"tokens"`
	Shared int   `json:"shared"` // of them, in whole pages
	Bytes  int64 `json:"bytes"`  // the shared pages' objects

	// Cold is by a stock engine with nothing cached, Primed by one whose slot
	// holds the shared tokens.
	Cold   Spread `json:"cold_ms"`
	Primed Spread `json:"primed_ms"`
	// PrimedCompute is the engine's part of the median primed request.
	PrimedCompute float64 `json:"primed_compute_ms"`
	// TCP and File are by another process than computed the shared tokens, from a
	// Mooncake Store over TCP and from a folder.
	TCP  Reuse `json:"tcp"`
	File Reuse `json:"file"`

	Publishing Publishing `json:"publishing"`
}

// Reuse is a prompt whose beginning comes from a store.
type Reuse struct {
	TTFT Spread `json:"ttft_ms"`
	// Breakdown is where the time of the median request went.
	Breakdown Breakdown `json:"breakdown_ms"`
	// OfCold is how many times quicker the median request is than the median cold
	// one, OfPrimed how many times slower than the median primed one.
	OfCold   float64 `json:"of_cold"`
	OfPrimed float64 `json:"of_primed"`
}

// Publishing is a prompt that is computed and published, next to the same prompt
// computed by a stock engine.
type Publishing struct {
	Tokens     int    `json:"tokens"`
	Cold       Spread `json:"cold_ms"`
	Publishing Spread `json:"publishing_ms"`
	// Added is the median over pairs of what publishing adds, as a part of the
	// cold time.
	Added float64 `json:"added"`
}

// Overhead is what is added where nothing is shared: differences and ratios are
// medians over requests in turn.
type Overhead struct {
	Short  Short  `json:"short"`
	Miss   Miss   `json:"miss"`
	Decode Decode `json:"decode"`
}

// Short is prompts shorter than a page.
type Short struct {
	Tokens       int     `json:"tokens"`
	Requests     int     `json:"requests"` // to each
	Stock        Spread  `json:"stock_ms"`
	None         Spread  `json:"none_ms"`    // a stand-in without a store
	Sharing      Spread  `json:"sharing_ms"` // one that shares
	NoneAdded    float64 `json:"none_added_ms"`
	SharingAdded float64 `json:"sharing_added_ms"`
}

// Miss is prompts given as tokens of which the slot has most, so that little is
// computed, and the store has nothing.
type Miss struct {
	Tokens   int     `json:"tokens"`
	Pages    int     `json:"pages"` // looked up
	Requests int     `json:"requests"`
	Stock    Spread  `json:"stock_ms"`
	Sharing  Spread  `json:"sharing_ms"`
	Added    float64 `json:"added_ms"`
}

// Decode is the speed of generating, in tokens a second.
type Decode struct {
	Tokens   int     `json:"tokens"` // of each answer
	Requests int     `json:"requests"`
	Stock    float64 `json:"stock_tokens_s"`
	None     float64 `json:"none_tokens_s"`
	Sharing  float64 `json:"sharing_tokens_s"`
	// NoneOfStock and SharingOfStock are ratios of the speeds.
	NoneOfStock    float64 `json:"none_of_stock"`
	SharingOfStock float64 `json:"sharing_of_stock"`
}

// Memory is what the stand-in's process has resident, without its engine, after
// the longest prompt.
type Memory struct {
	Tokens    int      `json:"tokens"`
	Publisher Resident `json:"publisher"`
	Loader    Resident `json:"loader"` // over TCP
}

// Resident is memory of a process; zeroes where the system does not tell.
type Resident struct {
	NowBytes      int64 `json:"now_bytes"`
	PeakBytes     int64 `json:"peak_bytes"`
	InFlightBytes int64 `json:"in_flight_bytes"` // the most pages that the process held at once
}

// Held is the most that the process held beside the pages in flight.
func (r Resident) Held() int64 { return max(r.NowBytes, r.PeakBytes-r.InFlightBytes) }

// BreakEven says from where on loading a prefix is quicker than computing it.
type BreakEven struct {
	// As measured with the longest prompt: what a load takes whatever its length,
	// the speed of reading pages over TCP and of bringing them into a slot.
	FixedMS    float64 `json:"fixed_ms"`
	LoadMBs    float64 `json:"load_mb_s"`
	RestoreMBs float64 `json:"restore_mb_s"`

	Rows []BreakEvenRow `json:"rows"`
}

// A BreakEvenRow is a model at one speed of prefill.
type BreakEvenRow struct {
	Model         string  `json:"model"`
	TokenBytes    int64   `json:"token_bytes"`
	PrefillTokens float64 `json:"prefill_tokens_s"`
	// LinkMBs is the slowest link at which loading a long prefix pays; 0 is that
	// restoring it alone takes longer.
	LinkMBs float64 `json:"link_mb_s"`
	// Tokens is the shortest prefix, in whole pages, at which loading pays: over a
	// link as quick as the one measured, and over slower ones.
	Tokens []BreakEvenTokens `json:"tokens"`
}

// BreakEvenTokens is a shortest prefix, for one link.
type BreakEvenTokens struct {
	LinkMBs float64 `json:"link_mb_s"`
	Tokens  int     `json:"tokens"` // 0: none
}

// A TTFTGoal is a figure to reach, and what was measured, in one unit.
type TTFTGoal struct {
	Name     string  `json:"name"`
	Want     float64 `json:"want"`
	Most     bool    `json:"most"` // want is the most that is good, else the least
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit"`
	Reached  bool    `json:"reached"`
}

// Write writes the file, whole or not at all.
func (f *TTFT) Write(path string) error { return write(path, f) }

// JSON returns what Write writes.
func (f *TTFT) JSON() ([]byte, error) { return encode(f) }

// ParseTTFT checks data against the schema and its figures against each other,
// and decodes it. The error names every place that is wrong.
func ParseTTFT(data []byte) (*TTFT, error) {
	var f TTFT
	if err := decode(data, ttftSchema, &f); err != nil {
		return nil, err
	}
	if found := f.contradictions(); len(found) > 0 {
		return nil, problems(found)
	}
	return &f, nil
}

// ReadTTFT reads a file that Write wrote.
func ReadTTFT(path string) (*TTFT, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	f, err := ParseTTFT(data)
	if err != nil {
		return nil, fmt.Errorf("reading results %s: %w", path, err)
	}
	return f, nil
}

// contradictions lists what a schema cannot say.
func (f *TTFT) contradictions() []string {
	var found []string
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for i, p := range f.Prompts {
		place := fmt.Sprintf("/prompts/%d", i)
		if p.Shared >= p.Tokens || p.Shared%f.Model.PageTokens != 0 {
			wrong("at '%s/shared': %d of %d tokens are not whole pages of %d", place, p.Shared, p.Tokens, f.Model.PageTokens)
		}
		for name, s := range map[string]Spread{
			"cold_ms": p.Cold, "primed_ms": p.Primed, "tcp/ttft_ms": p.TCP.TTFT, "file/ttft_ms": p.File.TTFT,
			"publishing/cold_ms": p.Publishing.Cold, "publishing/publishing_ms": p.Publishing.Publishing,
		} {
			s.contradictions(place+"/"+name, wrong)
		}
		for name, r := range map[string]Reuse{"tcp": p.TCP, "file": p.File} {
			if sum := r.Breakdown.Sum(); sum < r.TTFT.Min*(1-clockSlack) || sum > r.TTFT.Max*(1+clockSlack) {
				wrong("at '%s/%s/breakdown_ms': the parts are %g ms, of %g to %g", place, name, sum, r.TTFT.Min, r.TTFT.Max)
			}
		}
	}
	for i, g := range f.Goals {
		if reached := g.Measured >= g.Want && !g.Most || g.Measured <= g.Want && g.Most; g.Reached != reached {
			wrong("at '/goals/%d/reached': %v, with %g for %g", i, g.Reached, g.Measured, g.Want)
		}
	}
	return found
}
