package simulate

import (
	"slices"

	"ollamoon/internal/simulate/trace"
)

// maxForks is how many ways a prompt's whole pages are continued, in all of a
// trace, when it is a conversation. What is continued in more is a beginning that
// conversations have in common.
const maxForks = 4

// follow finds for each request the one that it continues: the latest whose whole
// pages it begins with and which nothing else has continued.
func follow(p *trace.Pages, all []*request) {
	next := countForks(p)
	latest := make([]*request, len(next)) // by the last whole page
	for _, r := range all {
		pages := whole(p, r.prompt)
		for _, page := range slices.Backward(pages) {
			if before := latest[page]; before != nil && next[page].n <= maxForks {
				r.continues = before
				latest[page] = nil
				break
			}
		}
		if len(pages) > 0 {
			latest[pages[len(pages)-1]] = r
		}
	}
}

// forks are the different pages that follow a page, until there are more than
// matter.
type forks struct {
	n    int
	next [maxForks + 1]int32
}

func countForks(p *trace.Pages) []forks {
	all := make([]forks, p.Numbers())
	for i := range p.Prompts {
		pages := whole(p, &p.Prompts[i])
		for j := range len(pages) - 1 {
			f := &all[pages[j]]
			if f.n <= maxForks && !slices.Contains(f.next[:f.n], pages[j+1]) {
				f.next[f.n] = pages[j+1]
				f.n++
			}
		}
	}
	return all
}

// whole are the pages of a prompt that are full.
func whole(p *trace.Pages, q *trace.Prompt) []int32 {
	return q.Pages[:min(len(q.Pages), q.Input/p.Tokens)]
}
