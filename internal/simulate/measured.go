package simulate

import (
	"fmt"

	"ollamoon/internal/results"
)

// measuredSlots is how many slots a worker of measured costs has: what
// llama-server chooses.
const measuredSlots = 4

// measured returns the costs that a run of bench ttft has measured: with its
// longest prompt, and the store on the same machine.
func measured(data []byte) (Costs, error) {
	f, err := results.ParseTTFT(data)
	if err != nil {
		return Costs{}, fmt.Errorf("%w: %w", ErrCosts, err)
	}
	longest := f.Prompts[len(f.Prompts)-1]
	c := Costs{
		Name: f.Model.Name, Slots: measuredSlots, KVBytes: float64(f.Model.TokenBytes),
		Prefill: float64(longest.Tokens) / longest.Cold.P50 * 1e3,
		Decode:  f.Overhead.Decode.Stock,
		Load:    f.BreakEven.LoadMBs * 1e6, Restore: f.BreakEven.RestoreMBs * 1e6, Lookup: f.BreakEven.FixedMS / 1e3,
		Sources: []string{fmt.Sprintf("Measured on %s by: %s", f.Host.Name, f.Command)},
	}
	// What publishing adds is the time of the saves.
	published := longest.Publishing
	if added := published.Added * published.Cold.P50 / 1e3; added > 0 {
		tokens := 0
		for _, pages := range steps(0, published.Tokens/f.Model.PageTokens, f.Model.PageTokens) {
			tokens += pages * f.Model.PageTokens
		}
		c.Save = c.bytes(tokens) / added
	}
	return c, c.Validate()
}
