package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ErrInvalid is wrapped by the error for a file that does not follow the
// schema, or whose figures contradict each other.
var ErrInvalid = errors.New("not a valid results file")

// Parse checks data against the schema and its figures against each other, and
// decodes it. The error names every place that is wrong.
func Parse(data []byte) (*File, error) {
	var f File
	if err := decode(data, fileSchema, &f); err != nil {
		return nil, err
	}
	if found := f.contradictions(); len(found) > 0 {
		return nil, problems(found)
	}
	return &f, nil
}

// The schemas' identifiers.
const (
	fileSchema = "urn:ollamoon:results:1"
	ttftSchema = "urn:ollamoon:ttft:1"

	simulationSchema = "urn:ollamoon:simulation:1"
	replaySchema     = "urn:ollamoon:replay:1"
)

// decode checks data against a schema and decodes it.
func decode(data []byte, schema string, into any) error {
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%w: not JSON: %w", ErrInvalid, err)
	}
	schemas, err := compiled()
	if err != nil {
		return err
	}
	if err := schemas[schema].Validate(instance); err != nil {
		return problems(schemaProblems(err))
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// compiled are the schemas by their identifiers. Some refer to others.
var compiled = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	sources := map[string][]byte{fileSchema: Schema, ttftSchema: TTFTSchema, simulationSchema: SimulationSchema, replaySchema: ReplaySchema}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for name, source := range sources {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
		if err == nil {
			err = compiler.AddResource(name, document)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the schema %s: %w", name, err)
		}
	}
	schemas := map[string]*jsonschema.Schema{}
	for name := range sources {
		schema, err := compiler.Compile(name)
		if err != nil {
			return nil, fmt.Errorf("compiling the schema %s: %w", name, err)
		}
		schemas[name] = schema
	}
	return schemas, nil
})

func problems(found []string) error {
	return fmt.Errorf("%w:\n  %s", ErrInvalid, strings.Join(found, "\n  "))
}

// schemaProblems lists the innermost violations, one line each, in order of
// their place.
func schemaProblems(err error) []string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	var found []string
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			found = append(found, e.Error())
		}
		for _, cause := range e.Causes {
			collect(cause)
		}
	}
	collect(invalid)
	sort.Strings(found)
	return found
}

// contradictions lists what a schema cannot say.
func (f *File) contradictions() []string {
	var found []string
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, s := range []struct {
		name string
		Scenario
	}{{"realistic", f.Realistic}, {"tiny", f.Tiny}} {
		hits := 0
		for _, outcome := range s.PageOutcomes {
			if outcome == "hit" {
				hits++
			}
		}
		if len(s.PageOutcomes) != s.Pages {
			wrong("at '/%s/page_outcomes': %d outcomes for %d pages", s.name, len(s.PageOutcomes), s.Pages)
		}
		if hits != s.PagesHit {
			wrong("at '/%s/pages_hit': %d, but page_outcomes has %d hits", s.name, s.PagesHit, hits)
		}
		if s.TokensSkipped > s.Tokens {
			wrong("at '/%s/tokens_skipped': %d of %d tokens", s.name, s.TokensSkipped, s.Tokens)
		}
		if s.ObjectBytes < s.PageBytes {
			wrong("at '/%s/object_bytes': %d, less than the payload of %d", s.name, s.ObjectBytes, s.PageBytes)
		}
	}
	for _, m := range []struct {
		name string
		ms   Spread
	}{
		{"transfer/tcp", f.Transfer.TCP.ReloadMS},
		{"transfer/shared_memory", f.Transfer.SharedMemory.ReloadMS},
		{"peer/python_client", f.Peer.PythonClient.ReloadMS},
	} {
		m.ms.contradictions("/"+m.name+"/reload_ms", wrong)
	}
	if f.Engine != nil {
		f.Engine.contradictions(wrong)
	}
	return found
}

func (s Spread) contradictions(place string, wrong func(format string, args ...any)) {
	const rounding = 1e-6 // of a mean of equal timings
	if s.Min > s.P50 || s.P50 > s.Max || s.Mean < s.Min*(1-rounding) || s.Mean > s.Max*(1+rounding) {
		wrong("at '%s': min, p50, mean and max are out of order", place)
	}
}

// clockSlack is a part of a time: the engine and the client have clocks of their
// own.
const clockSlack = 0.05

func (e *Engine) contradictions(wrong func(format string, args ...any)) {
	if e.TokensSkipped > e.PromptTokens {
		wrong("at '/engine/tokens_skipped': %d of %d tokens", e.TokensSkipped, e.PromptTokens)
	}
	if loaded := e.PagesLoaded * int64(e.PageTokens); loaded > int64(e.TokensSkipped) {
		wrong("at '/engine/pages_loaded': their %d tokens are more than the %d skipped", loaded, e.TokensSkipped)
	}
	if sum := e.Breakdown.Sum(); math.Abs(sum-e.TTFTReusedMS) > clockSlack*e.TTFTReusedMS {
		wrong("at '/engine/breakdown_ms': the parts are %g ms of %g", sum, e.TTFTReusedMS)
	}
}
