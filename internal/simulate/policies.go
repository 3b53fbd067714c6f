package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ollamoon/internal/router/policy"
)

// A Policy is a way to run a cluster: how the router chooses, and whether workers
// have a store in common.
type Policy string

// The policies, ours last.
const (
	RoundRobin       Policy = "round-robin"
	LeastOutstanding Policy = "least-outstanding"
	CacheAffinity    Policy = "cache-affinity"
	Shared           Policy = "shared"
)

// Policies returns all, ours last.
func Policies() []Policy {
	return []Policy{RoundRobin, LeastOutstanding, CacheAffinity, Shared}
}

// ErrPolicy is wrapped by the error for a policy that does not exist.
var ErrPolicy = errors.New("simulate: no such policy")

// ParsePolicy returns a policy by its name.
func ParsePolicy(name string) (Policy, error) {
	if p := Policy(name); slices.Contains(Policies(), p) {
		return p, nil
	}
	var names []string
	for _, p := range Policies() {
		names = append(names, string(p))
	}
	return "", fmt.Errorf("%w: %q; there are %s", ErrPolicy, name, strings.Join(names, ", "))
}

// shared: workers have a store in common.
func (p Policy) shared() bool { return p == Shared }

// looks: the router looks at what workers and store are believed to hold.
func (p Policy) looks() bool { return p == Shared || p == CacheAffinity }

// router is the policy of the router.
func (p Policy) router(costs policy.Costs) policy.Policy {
	switch p {
	case RoundRobin:
		return policy.RoundRobin{}
	case LeastOutstanding:
		return policy.LeastOutstanding{}
	case CacheAffinity:
		return policy.NewCacheAffinity()
	case Shared:
	}
	return policy.NewLeastTime(costs)
}
