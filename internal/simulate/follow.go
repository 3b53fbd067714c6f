package simulate

import "ollamoon/internal/router/policy"

// maxForks is how many ways a prompt's whole pages are continued, in all of a
// trace, when it is a conversation. What is continued in more is a beginning that
// conversations have in common.
const maxForks = 4

// follow finds for each request the one that it continues: the latest whose whole
// pages it begins with and which nothing else has continued.
func follow(all []*request) {
	forks := countForks(all)
	latest := make(map[policy.Key]*request) // by the last whole page
	for _, r := range all {
		prefix := r.asked.Prefix
		for i := len(prefix) - 1; i >= 0; i-- {
			if before := latest[prefix[i]]; before != nil && forks[prefix[i]] <= maxForks {
				r.continues = before
				delete(latest, prefix[i])
				break
			}
		}
		if len(prefix) > 0 {
			latest[prefix[len(prefix)-1]] = r
		}
	}
}

// countForks returns by how many different pages each page is followed.
func countForks(all []*request) map[policy.Key]int {
	type pair struct{ page, next policy.Key }
	seen := make(map[pair]bool)
	forks := make(map[policy.Key]int)
	for _, r := range all {
		prefix := r.asked.Prefix
		for i := range len(prefix) - 1 {
			if p := (pair{prefix[i], prefix[i+1]}); !seen[p] {
				seen[p] = true
				forks[p.page]++
			}
		}
	}
	return forks
}
