package doctor

import (
	"context"
	"fmt"
	"time"

	"ollamoon/internal/ollama"
	"ollamoon/internal/remote"
	"ollamoon/internal/settings"
)

// lookTime bounds one look.
const lookTime = 20 * time.Second

// A State is how a thing was found to be.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warn" // prompts are shared, or can be, but not as well as they could
	Fail State = "fail" // prompts are not shared
)

// A Finding is what a look has found.
type Finding struct {
	About string `json:"about"`
	State State  `json:"state"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// Options say what to look at.
type Options struct {
	Settings      settings.Settings
	SettingsError error         // why they are not those that were asked for
	Worker        remote.Server // a running one; none without a URL
	Ollama        ollama.Options
}

// A patient collects findings.
type patient struct {
	Options
	findings []Finding
	attached *ollama.Status // nil: no Ollama is there
}

func (p *patient) add(state State, about, do, found string, args ...any) {
	p.findings = append(p.findings, Finding{About: about, State: state, Found: fmt.Sprintf(found, args...), Do: do})
}

func (p *patient) ok(about, found string, args ...any) { p.add(OK, about, "", found, args...) }

// Look makes all looks, in the order in which a failure explains those behind it.
func Look(ctx context.Context, o Options) []Finding {
	p := &patient{Options: o}
	for _, look := range []func(*patient, context.Context){
		(*patient).settings, (*patient).ollama, (*patient).binary, (*patient).sealKey, (*patient).slotFiles, (*patient).store, (*patient).worker,
	} {
		bounded, cancel := context.WithTimeout(ctx, lookTime)
		look(p, bounded)
		cancel()
	}
	return p.findings
}

// Failed counts the findings of a state.
func Failed(findings []Finding, state State) int {
	n := 0
	for _, f := range findings {
		if f.State == state {
			n++
		}
	}
	return n
}
