package replay

import (
	"math/rand/v2"

	"ollamoon/internal/simulate/trace"
)

// Tokens of prompts are in the vocabulary of any model, beyond those that are
// special in many.
const (
	firstToken = 1000
	tokenKinds = 16000
)

// prompts makes prompts of a run.
type prompts struct {
	run         uint64 // prompts of other runs have other tokens
	blockTokens int
}

// of returns a request's prompt.
func (p prompts) of(q trace.Request) []int32 {
	tokens := make([]int32, 0, len(q.Blocks)*p.blockTokens)
	for _, id := range q.Blocks {
		tokens = append(tokens, p.block(id)...)
	}
	return tokens[:q.Input]
}

// block returns the tokens of a block. Blocks of other ids have other tokens.
func (p prompts) block(id int64) []int32 {
	random := rand.New(rand.NewPCG(p.run, uint64(id))) //nolint:gosec // neither ids nor tokens are secrets
	tokens := make([]int32, p.blockTokens)
	for i := range tokens {
		tokens[i] = firstToken + random.Int32N(tokenKinds)
	}
	return tokens
}
