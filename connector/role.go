package connector

import "fmt"

// A Role is what a worker does with the store when prefill and decode run
// apart.
type Role int

const (
	// Mixed loads and publishes.
	Mixed Role = iota
	// Prefill loads and publishes: it computes prompts for others, and may begin
	// from what they have computed.
	Prefill
	// Decode loads only.
	Decode
)

var roleNames = [...]string{Mixed: "mixed", Prefill: "prefill", Decode: "decode"}

// ParseRole returns the role of a name: mixed, prefill or decode.
func ParseRole(name string) (Role, error) {
	for role, n := range roleNames {
		if n == name {
			return Role(role), nil
		}
	}
	return 0, fmt.Errorf("connector: no role %q; use mixed, prefill or decode", name)
}

// String returns the role's name.
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return fmt.Sprintf("role %d", int(r))
	}
	return roleNames[r]
}

// Loads reports whether the role may load pages.
func (r Role) Loads() bool { return r == Mixed || r == Prefill || r == Decode }

// Publishes reports whether the role may publish pages.
func (r Role) Publishes() bool { return r == Mixed || r == Prefill }
