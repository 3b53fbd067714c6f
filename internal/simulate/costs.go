package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"ollamoon/internal/router/policy"
)

// ErrCosts is wrapped by errors for costs that cannot be.
var ErrCosts = errors.New("simulate: costs that cannot be")

// Costs are what work takes on each worker. All workers are alike.
type Costs struct {
	Name string `json:"name"`
	// Prefill and Decode are the engine's speeds, in tokens a second: of a prompt
	// alone, and of one stream alone.
	Prefill float64 `json:"prefill_tokens_per_second"`
	Decode  float64 `json:"decode_tokens_per_second"`
	// Beside is added to a stream's time for a token by each other stream, in seconds.
	// 0: what a prompt's token takes.
	Beside float64 `json:"beside_seconds,omitempty"`
	// Batch is how many tokens of a prompt the engine computes at once; meanwhile each
	// stream gets one token. 0: DefaultBatch.
	Batch int `json:"batch_tokens,omitempty"`
	Slots int `json:"slots"` // requests that a worker runs at the same time
	// KVBytes is the size of a token's keys and values.
	KVBytes float64 `json:"kv_bytes_per_token"`
	// Load and Publish are the speeds of a worker's link from the store and to it, in
	// bytes a second, each for one request at a time. Publish 0: as Load.
	Load    float64 `json:"load_bytes_per_second"`
	Publish float64 `json:"publish_bytes_per_second,omitempty"`
	Lookup  float64 `json:"lookup_seconds"` // asking the store what it has
	// Restore and Save are the engine's speeds with slot files, in bytes a second. It
	// does nothing else meanwhile. 0: no time.
	Restore float64 `json:"restore_bytes_per_second,omitempty"`
	Save    float64 `json:"save_bytes_per_second,omitempty"`
	// Sources says where the figures come from.
	Sources []string `json:"sources,omitempty"`
}

// DefaultBatch is llama-server's own --batch-size.
const DefaultBatch = 2048

// ReadCosts returns a preset by its name, or what a file holds: results of bench
// ttft, the JSON of Costs, or an object that has it as "costs".
func ReadCosts(nameOrFile string) (Costs, error) {
	if c, ok := preset(nameOrFile); ok {
		return c, nil
	}
	data, err := os.ReadFile(nameOrFile) //nolint:gosec // the user names the file
	if errors.Is(err, os.ErrNotExist) {
		return Costs{}, fmt.Errorf("%w: %q is neither a file nor one of %s", ErrCosts, nameOrFile, strings.Join(PresetNames(), ", "))
	}
	if err != nil {
		return Costs{}, fmt.Errorf("reading costs: %w", err)
	}
	c, err := parseCosts(data)
	if err != nil {
		return Costs{}, fmt.Errorf("%s: %w", nameOrFile, err)
	}
	return c, nil
}

func parseCosts(data []byte) (Costs, error) {
	var outer struct {
		Costs     json.RawMessage `json:"costs"`
		BreakEven json.RawMessage `json:"break_even"`
	}
	if err := json.Unmarshal(data, &outer); err != nil {
		return Costs{}, fmt.Errorf("%w: %w", ErrCosts, err)
	}
	if outer.BreakEven != nil {
		return measured(data)
	}
	if outer.Costs != nil {
		data = outer.Costs
	}
	c := Costs{Name: "measured"}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields() // a name that is not known would count for nothing
	if err := decoder.Decode(&c); err != nil {
		return Costs{}, fmt.Errorf("%w: %w", ErrCosts, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Costs{}, fmt.Errorf("%w: more than one value", ErrCosts)
	}
	return c, c.Validate()
}

// Validate reports costs that cannot be.
func (c Costs) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
		zero  bool
	}{
		{"prefill_tokens_per_second", c.Prefill, false},
		{"decode_tokens_per_second", c.Decode, false},
		{"beside_seconds", c.Beside, true},
		{"batch_tokens", float64(c.Batch), true},
		{"slots", float64(c.Slots), false},
		{"kv_bytes_per_token", c.KVBytes, false},
		{"load_bytes_per_second", c.Load, false},
		{"publish_bytes_per_second", c.Publish, true},
		{"lookup_seconds", c.Lookup, true},
		{"restore_bytes_per_second", c.Restore, true},
		{"save_bytes_per_second", c.Save, true},
	} {
		if math.IsNaN(f.value) || math.IsInf(f.value, 0) || f.value < 0 || f.value == 0 && !f.zero {
			return fmt.Errorf("%w: %s is %g", ErrCosts, f.name, f.value)
		}
	}
	return nil
}

// complete sets what is left to its default.
func (c Costs) complete() Costs {
	if c.Beside == 0 {
		c.Beside = 1 / c.Prefill
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	if c.Publish == 0 {
		c.Publish = c.Load
	}
	return c
}

// loading is the time that pages of a number of tokens take to load and restore.
func (c Costs) loading(tokens int) float64 {
	return c.Lookup + c.bytes(tokens)/c.Load + c.restoring(tokens)
}

func (c Costs) bytes(tokens int) float64 { return float64(tokens) * c.KVBytes }

func (c Costs) restoring(tokens int) float64 { return seconds(c.bytes(tokens), c.Restore) }

func (c Costs) saving(tokens int) float64 { return seconds(c.bytes(tokens), c.Save) }

// maxSaving is the part of computing a prompt that saving it in steps may cost for
// a worker to do so, and not after the answer: that of package worker.
const maxSaving = 0.03

// saves says when a worker of these costs saves: all steps together save about
// twice the prompt's final size.
func (c Costs) saves() Saves {
	if 2*c.saving(1) <= maxSaving/c.Prefill {
		return SaveSteps
	}
	return SaveAfter
}

func seconds(bytes, speed float64) float64 {
	if speed == 0 {
		return 0
	}
	return bytes / speed
}

// forRouter is what the router's policy knows of the costs.
func (c Costs) forRouter(store bool) policy.Costs {
	in := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	p := policy.Costs{Prefill: in(1 / c.Prefill), Decode: in(1 / c.Decode), Beside: in(c.Beside)}
	if store {
		p.Load = max(1, in(c.KVBytes/c.Load+seconds(c.KVBytes, c.Restore)))
	}
	return p
}
