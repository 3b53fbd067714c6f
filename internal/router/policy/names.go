package policy

import (
	"errors"
	"fmt"
	"strings"
)

// ErrName is wrapped by the error for a policy that does not exist.
var ErrName = errors.New("policy: no such policy")

// All returns every policy, ours first. Those that expect times do so by costs.
func All(costs Costs) []Policy {
	return []Policy{NewLeastTime(costs), RoundRobin{}, LeastOutstanding{}, NewCacheAffinity()}
}

// ByName returns a policy by its name.
func ByName(name string, costs Costs) (Policy, error) {
	var names []string
	for _, p := range All(costs) {
		if p.Name() == name {
			return p, nil
		}
		names = append(names, p.Name())
	}
	return nil, fmt.Errorf("%w: %q; there are %s", ErrName, name, strings.Join(names, ", "))
}
