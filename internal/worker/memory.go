package worker

import (
	"slices"
	"sync"
)

// remembered is what the engine is taken to remember of conversations whose slot
// went to another one (--cache-ram): it brings them back by itself, with their
// last token. It is a guess: where it is wrong, a prefix is computed that could
// have been loaded, and the guess is dropped.
type remembered struct {
	limit int // tokens
	mu    struct {
		sync.Mutex
		distrusted    bool
		conversations []conversation // the oldest first
		tokens        int
	}
}

type conversation struct {
	tokens []int32
	sound  int
}

// put notes that a slot's conversation has been remembered.
func (m *remembered) put(tokens []int32, sound int) {
	if len(tokens) == 0 || len(tokens) > m.limit {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.distrusted {
		return
	}
	// One that goes on takes the place of its beginning.
	m.delete(func(c conversation) bool { return common(c.tokens, tokens) == len(c.tokens) })
	m.mu.conversations = append(m.mu.conversations, conversation{slices.Clone(tokens), sound})
	m.mu.tokens += len(tokens)
	for m.mu.tokens > m.limit {
		m.mu.tokens -= len(m.mu.conversations[0].tokens)
		m.mu.conversations = m.mu.conversations[1:]
	}
}

func (m *remembered) delete(match func(conversation) bool) {
	m.mu.conversations = slices.DeleteFunc(m.mu.conversations, func(c conversation) bool {
		yes := match(c)
		if yes {
			m.mu.tokens -= len(c.tokens)
		}
		return yes
	})
}

// distrust says that from now on the engine may remember rows that other adapters
// made, which it does not tell from those of the present ones: nothing that it
// brings back is counted on any more.
func (m *remembered) distrust() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.distrusted, m.mu.conversations, m.mu.tokens = true, nil, 0
}

// longest returns how many tokens of a prompt are remembered.
func (m *remembered) longest(tokens []int32) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, c := range m.mu.conversations {
		n = max(n, common(c.tokens, tokens))
	}
	return n
}

// take notes that the engine has taken a conversation back, of which a prompt
// reused so many rows, and returns how many of these are sound.
func (m *remembered) take(tokens []int32, reused int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.mu.conversations) - 1; i >= 0; i-- {
		c := m.mu.conversations[i]
		if common(c.tokens, tokens) >= reused {
			m.mu.tokens -= len(c.tokens)
			m.mu.conversations = slices.Delete(m.mu.conversations, i, i+1)
			return min(c.sound, reused)
		}
	}
	return 0
}

// lost drops what was taken to be remembered of a prompt and was not.
func (m *remembered) lost(tokens []int32, reused int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delete(func(c conversation) bool { return common(c.tokens, tokens) > reused })
}
