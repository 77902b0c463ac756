package hardening

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// fieldNames gives every field of a type by its dotted name, but none below one
// for which covered says so.
func fieldNames(t reflect.Type, at string, covered func(string) bool) []string {
	t = element(t)
	if t.Kind() != reflect.Struct || at != "" && covered(at) {
		return []string{at}
	}
	var out []string
	for f := range t.Fields() {
		below := at
		if !f.Anonymous {
			below = strings.TrimPrefix(at+"."+fieldName(f), ".")
		}
		out = append(out, fieldNames(f.Type, below, covered)...)
	}
	return out
}

// Proves: G-02.
func TestEveryFieldHasALine(t *testing.T) {
	hasLine := func(name string) bool { return table()[name].verb != unknown }
	names := fieldNames(reflect.TypeFor[specs.Spec](), "", hasLine)
	for _, name := range names {
		if !hasLine(name) {
			t.Errorf("%s: got no line in the table, want keep, judge, discard or refuse", name)
		}
	}
	for name, l := range table() {
		if !slices.Contains(names, name) {
			t.Errorf("%s: got a line for a field that there is not", name)
		}
		if (l.verb == refuse || l.verb == discard) && l.why == "" {
			t.Errorf("%s: got no reason, want one", name)
		}
	}
}

// A field that a later version adds is refused for as long as nobody has judged
// it. That is tried with a type that has one.
func TestFieldWithoutALine(t *testing.T) {
	type newer struct {
		Hostname string            `json:"hostname"`
		Speed    int               `json:"speed"`
		Turbo    *struct{ A int }  `json:"turbo"`
		List     []struct{ B int } `json:"list"`
	}
	n := tree(reflect.TypeFor[newer](), "", "")
	for _, c := range []struct {
		name string
		have newer
		want string
	}{
		{name: "not set", have: newer{Hostname: "x"}},
		{name: "a number", have: newer{Speed: 1}, want: "speed: is not known"},
		{name: "a struct", have: newer{Turbo: &struct{ A int }{1}}, want: "turbo: is not known"},
		{name: "a list", have: newer{List: []struct{ B int }{{0}, {1}}}, want: "list[1]: is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r record
			err := r.walk(&c.have, n, "")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		v    any
		want bool
	}{
		"zero":                  {0, false},
		"number":                {1, true},
		"no pointer":            {(*int)(nil), false},
		"pointer to 0":          {new(0), false},
		"pointer to false":      {new(false), false},
		"pointer to 1":          {new(1), true},
		"pointer to a struct":   {&specs.VM{}, true},
		"empty list":            {[]string{}, false},
		"list":                  {[]string{""}, true},
		"empty map":             {map[string]string{}, false},
		"map":                   {map[string]string{"": ""}, true},
		"pointer to empty text": {new(""), false},
	} {
		if got := isSet(reflect.ValueOf(c.v)); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}

func TestDeepCopy(t *testing.T) {
	s := loadBundle(t, "docker")
	out := deepCopy(s)
	if diff := cmp.Diff(out, s); diff != "" {
		t.Fatalf("got, want: %s", diff)
	}
	// Everything that a pointer, list or map leads to is another one.
	var shared []string
	findShared(reflect.ValueOf(out), reflect.ValueOf(s), "spec", &shared)
	if len(shared) > 0 {
		t.Errorf("got %v shared with the original, want nothing", shared)
	}
}

func findShared(a, b reflect.Value, at string, shared *[]string) {
	switch a.Kind() { //nolint:exhaustive // no other kind refers to anything
	case reflect.Pointer, reflect.Map:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			*shared = append(*shared, at)
		}
		if a.Kind() == reflect.Pointer && !a.IsNil() {
			findShared(a.Elem(), b.Elem(), at, shared)
		}
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			*shared = append(*shared, at)
		}
		for i := range a.Len() {
			findShared(a.Index(i), b.Index(i), at+"[]", shared)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			findShared(a.Field(i), b.Field(i), at+"."+a.Type().Field(i).Name, shared)
		}
	default:
	}
}
