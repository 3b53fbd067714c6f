package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const examplePath = "../report/testdata/example.json"

// example is the example file as plain JSON values, to be changed at will.
func example(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func parse(t *testing.T, v any) (*File, error) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(data)
}

// at returns the object that holds the last element of path, and that element.
func at(v map[string]any, path string) (holder map[string]any, last string) {
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		v = v[p].(map[string]any)
	}
	return v, parts[len(parts)-1]
}

func TestParseExample(t *testing.T) {
	f, err := parse(t, example(t))
	if err != nil {
		t.Fatal(err)
	}
	if f.Realistic.TokensSkipped != 1792 || f.Transfer.TCP.ReloadMS.P50 != 22.841 || len(f.Tiny.PageOutcomes) != 4 {
		t.Errorf("parsed %+v", f)
	}
	read, err := Read(examplePath)
	if err != nil || !reflect.DeepEqual(read, f) {
		t.Errorf("Read returns %+v, %v; Parse %+v", read, err, f)
	}
}

func TestWriteIsReadBack(t *testing.T) {
	f, err := Read(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	f.Transfer.SharedMemory = Measurement{} // a run without this plane: null rounds
	path := t.TempDir() + "/results.json"
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(data)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("read back %+v, %v", again, err)
	}
}

// Whatever the schema requires is missed, by its name and place, when it is gone.
func TestEveryRequiredFieldIsMissed(t *testing.T) {
	for _, path := range leaves("", example(t)) {
		if path == "versions.python" || path == "engine" {
			continue
		}
		v := example(t)
		holder, last := at(v, path)
		delete(holder, last)
		place, _, _ := strings.Cut("/"+strings.ReplaceAll(path, ".", "/"), "/"+last)
		_, err := parse(t, v)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "'"+last+"'") || !strings.Contains(err.Error(), place) {
			t.Errorf("without %s: %v", path, err)
		}
	}
}

func leaves(prefix string, v map[string]any) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		all = append(all, prefix+name)
		if inner, ok := v[name].(map[string]any); ok {
			all = append(all, leaves(prefix+name+".", inner)...)
		}
	}
	return all
}

func TestParseRejects(t *testing.T) {
	for _, c := range []struct {
		path  string
		value any
		want  string
	}{
		{"schema_version", 2, "at '/schema_version': value must be 1"},
		{"generated_at", "yesterday", "at '/generated_at': 'yesterday' is not valid date-time"},
		{"command", "", "at '/command': "},
		{"host.cores", 0, "at '/host/cores': minimum"},
		{"host.cores", 1.5, "at '/host/cores': got number, want integer"},
		{"store.metadata", "etcd", "at '/store/metadata': value must be one of"},
		{"store.seal", "crc", "at '/store/seal': value must be one of"},
		{"realistic.layout.layers", -1, "at '/realistic/layout/layers': minimum"},
		{"realistic.verified", "yes", "at '/realistic/verified': got string, want boolean"},
		{"tiny.page_outcomes", []string{"hit", "hit", "hit", "miss"}, "at '/tiny/page_outcomes/3': value must be one of 'hit', 'computed'"},
		{"tiny.page_outcomes", []string{"hit", "hit", "hit"}, "at '/tiny/page_outcomes': 3 outcomes for 4 pages"},
		{"tiny.pages_hit", 2, "at '/tiny/pages_hit': 2, but page_outcomes has 3 hits"},
		{"tiny.tokens_skipped", 33, "at '/tiny/tokens_skipped': 33 of 32 tokens"},
		{"tiny.object_bytes", 4095, "at '/tiny/object_bytes': 4095"},
		{"transfer.tcp.reload_ms.p50", -1, "at '/transfer/tcp/reload_ms/p50': minimum"},
		{"transfer.tcp.reload_ms.p50", 1000, "at '/transfer/tcp/reload_ms': min, p50, mean and max are out of order"},
		{"transfer.tcp.reload_ms.p99", 1, "at '/transfer/tcp/reload_ms': additional properties 'p99' not allowed"},
		{"transfer.rdma", map[string]any{}, "at '/transfer': additional properties 'rdma' not allowed"},
		{"transfer.tcp.publish_rounds_mb_s", []any{"1"}, "at '/transfer/tcp/publish_rounds_mb_s/0': got string, want number"},
		{"engine.tokens_skipped", 2049, "at '/engine/tokens_skipped': 2049 of 2048 tokens"},
		{"engine.pages_loaded", 8, "at '/engine/pages_loaded': their 2048 tokens are more than the 1792 skipped"},
		{"engine.breakdown_ms.compute", 5000, "at '/engine/breakdown_ms': the parts are"},
		{"engine.ttft_reused_ms", 0, "at '/engine/ttft_reused_ms': exclusiveMinimum"},
		{"limit.memcpy_mb_s", nil, "at '/limit/memcpy_mb_s': got null, want number"},
	} {
		v := example(t)
		holder, last := at(v, c.path)
		holder[last] = c.value
		if _, err := parse(t, v); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v; want %s", c.path, c.value, err, c.want)
		}
	}
	for _, data := range []string{"", "{", "[]", "null", "{} {}"} {
		if _, err := Parse([]byte(data)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// All problems are named at once.
func TestParseNamesEveryProblem(t *testing.T) {
	v := example(t)
	v["host"].(map[string]any)["cores"] = "two"
	delete(v["limit"].(map[string]any), "memcpy_mb_s")
	_, err := parse(t, v)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want two problems, got %v", err)
	}
}

type schemaNode struct {
	Ref         string                `json:"$ref"`
	Description string                `json:"description"`
	Type        json.RawMessage       `json:"type"`
	Enum        []string              `json:"enum"`
	Additional  json.RawMessage       `json:"additionalProperties"`
	Required    []string              `json:"required"`
	Properties  map[string]schemaNode `json:"properties"`
	Items       *schemaNode           `json:"items"`
	Defs        map[string]schemaNode `json:"$defs"`
}

// The schema and the Go types say the same: names, types, and what is optional.
func TestSchemaIsTheGoShape(t *testing.T) {
	file, ttft := schemaRoot(t, Schema), schemaRoot(t, TTFTSchema)
	var root schemaNode
	var compare func(place string, node schemaNode, typ reflect.Type)
	compare = func(place string, node schemaNode, typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if name, ok := strings.CutPrefix(node.Ref, "#/$defs/"); ok {
			node = root.Defs[name]
		}
		if name, ok := strings.CutPrefix(node.Ref, fileSchema+"#/$defs/"); ok {
			node = file.Defs[name]
		}
		if want := jsonType(typ); len(node.Enum) == 0 && !strings.Contains(string(node.Type), strconv.Quote(want)) {
			t.Errorf("%s: the schema says %s, Go %s", place, node.Type, want)
		}
		switch {
		case typ.Kind() == reflect.Slice:
			compare(place+"[]", *node.Items, typ.Elem())
		case jsonType(typ) == "object" && typ.Kind() == reflect.Struct:
			var names []string
			for field := range typ.Fields() {
				name, optional := strings.CutSuffix(field.Tag.Get("json"), ",omitempty")
				names = append(names, name)
				if optional {
					node.Required = append(node.Required, name)
				}
				inner, ok := node.Properties[name]
				if !ok {
					t.Errorf("%s.%s is not in the schema", place, name)
					continue
				}
				compare(place+"."+name, inner, field.Type)
			}
			slices.Sort(names)
			required := slices.Sorted(slices.Values(node.Required))
			if !slices.Equal(names, required) || len(node.Properties) != len(names) || string(node.Additional) != "false" {
				t.Errorf("%s: Go has %v, the schema requires %v of %d, additional: %s", place, names, required, len(node.Properties), node.Additional)
			}
		}
	}
	root = file
	compare("file", root, reflect.TypeFor[File]())
	root = ttft
	compare("ttft", root, reflect.TypeFor[TTFT]())
	root = schemaRoot(t, SimulationSchema)
	compare("simulation", root, reflect.TypeFor[Simulation]())
}

func schemaRoot(t *testing.T, schema []byte) schemaNode {
	t.Helper()
	var root schemaNode
	if err := json.NewDecoder(bytes.NewReader(schema)).Decode(&root); err != nil {
		t.Fatal(err)
	}
	return root
}

func jsonType(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.String:
		return "string"
	}
	if typ.PkgPath() == "time" {
		return "string"
	}
	return "object"
}

// Each figure's description names its unit.
func TestSchemaNamesUnits(t *testing.T) {
	units := []string{"in bytes", "in milliseconds", "in MB/s (10^6 bytes a second)", "in tokens", "in pages", "a count", "without unit", "in tokens a second", "in seconds"}
	var walk func(place string, node schemaNode)
	walk = func(place string, node schemaNode) {
		isFigure := strings.Contains(string(node.Type), "number") || strings.Contains(string(node.Type), "integer") ||
			(node.Items != nil && strings.Contains(string(node.Items.Type), "number"))
		if isFigure && !slices.ContainsFunc(units, func(u string) bool { return strings.Contains(node.Description, u) }) {
			t.Errorf("%s: no unit in %q", place, node.Description)
		}
		for name, inner := range node.Properties {
			walk(place+"."+name, inner)
		}
		for name, inner := range node.Defs {
			walk(place+"#"+name, inner)
		}
	}
	walk("", schemaRoot(t, Schema))
	walk("ttft", schemaRoot(t, TTFTSchema))
	walk("simulation", schemaRoot(t, SimulationSchema))
}

// The results that the repository shows are those of a run, whole.
func TestTheResultsShownAreValid(t *testing.T) {
	data, err := os.ReadFile("../../demo/bench-results.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Realistic.Verified || !f.Tiny.Verified || f.Engine == nil || !f.Engine.AnswersEqual {
		t.Error("the run that is shown was not a good one")
	}
}
