package prefix

import (
	"reflect"
	"strings"
	"testing"
)

var base = Namespace{
	Label: "smollm2:135m", Weights: "sha256:aa", Adapters: []string{"a.gguf*1"}, KeyType: "f16", ValueType: "f16",
	PageTokens: 256, Geometry: "30x3x64", RoPE: "neox base=100000", Tenant: "t",
}

// Every field but the label has to change the model, or two caches that differ
// in it would exchange pages.
func TestEveryFieldOfANamespaceCounts(t *testing.T) {
	seen := map[string]string{base.Model(): "the base"}
	typ := reflect.TypeFor[Namespace]()
	for i := range typ.NumField() {
		n := base
		field := reflect.ValueOf(&n).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Int:
			field.SetInt(field.Int() + 1)
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{"a.gguf*2"}))
		default:
			t.Fatalf("a field of kind %v is not covered", field.Kind())
		}
		name := typ.Field(i).Name
		_, digest, _ := strings.Cut(n.Model(), "@")
		_, baseDigest, _ := strings.Cut(base.Model(), "@")
		if name == "Label" {
			if digest != baseDigest {
				t.Error("the label enters the digest")
			}
			continue
		}
		if other, ok := seen[n.Model()]; ok {
			t.Errorf("a change of %s gives the model of %s", name, other)
		}
		seen[n.Model()] = name
	}
}

func TestNamespaceValuesCannotPassForOthers(t *testing.T) {
	pairs := [][2]Namespace{
		{{Adapters: []string{"a", "b"}}, {Adapters: []string{`a","b`}}},
		{{Adapters: []string{"a,b"}}, {Adapters: []string{"a", "b"}}},
		{{Tenant: "x\" weights=\"y"}, {Tenant: "x", Weights: "y"}},
		{{Adapters: []string{"a", "b"}}, {Adapters: []string{"b", "a"}}},
	}
	for _, p := range pairs {
		if p[0].Model() == p[1].Model() {
			t.Errorf("%v and %v have one model", p[0], p[1])
		}
	}
}

func TestNamespaceModelIsStable(t *testing.T) {
	// Another digest for the same namespace would lose every cache there is.
	const want = "smollm2:135m@228e4ac5b7568bb0ccb030b469be4b8e"
	if got := base.Model(); got != want {
		t.Errorf("model %q, want %q", got, want)
	}
	for label, want := range map[string]string{"": "model", "hf.co/a b/c": "hf.co-a-b-c", "模型": "--"} {
		n := Namespace{Label: label}
		if got, _, _ := strings.Cut(n.Model(), "@"); got != want {
			t.Errorf("label %q stands as %q, want %q", label, got, want)
		}
	}
}
