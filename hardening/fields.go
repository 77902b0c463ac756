package hardening

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// verb is what is done with a field of config.json. The zero verb is that of a
// field that has no line, which is refused where it is set.
type verb uint8

const (
	unknown verb = iota
	keep         // as it is
	judge        // by the code: kept, tightened or refused by what it says
	discard      // dropped, since it has no effect or must not have one
	refuse
)

// line is one row of the table.
type line struct {
	verb verb
	why  string // for discard and refuse
}

// node is one type of the specification with the lines of its fields.
type node struct {
	line
	name   string
	fields []*node // of a struct, by index
	active bool    // something in it is refused or dropped, or has no line
}

var (
	specFields    = sync.OnceValue(func() *node { return tree(reflect.TypeFor[specs.Spec](), "", "") })
	processFields = sync.OnceValue(func() *node { return tree(reflect.TypeFor[specs.Process](), "", "process") })
)

// tree finds the line of each field by its dotted name; a line for a struct
// covers all that is in it.
func tree(t reflect.Type, name, at string) *node {
	n := &node{name: name}
	n.line = table()[at]
	if n.verb != unknown {
		n.active = n.verb == discard || n.verb == refuse
		return n
	}
	t = element(t)
	if t.Kind() != reflect.Struct {
		n.active = true
		return n
	}
	n.fields = make([]*node, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		child, below := fieldName(f), at
		if !f.Anonymous {
			below = strings.TrimPrefix(at+"."+child, ".")
		}
		n.fields[i] = tree(f.Type, child, below)
		n.active = n.active || n.fields[i].active
	}
	return n
}

// element is the type that a field's lines are about: what is pointed to, or
// what a list or map holds.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Anonymous {
		return ""
	}
	return name
}

func (h *hardener) fields() error { return h.walk(h.spec, specFields(), "") }

// walk does what the table says for every field that is set in v.
func (r *record) walk(v any, n *node, at string) error {
	return r.walkValue(reflect.ValueOf(v), n, at)
}

func (r *record) walkValue(v reflect.Value, n *node, at string) error {
	if !n.active || !isSet(v) {
		return nil
	}
	switch {
	case n.verb == refuse:
		return denied(at, "want none: %s", n.why)
	case n.verb == discard:
		r.drop(at, "", n.why)
		v.SetZero()
		return nil
	case n.fields == nil:
		return denied(at, "is not known to this version of sage, so what it would do is not either")
	}
	return r.walkInto(v, n, at)
}

func (r *record) walkInto(v reflect.Value, n *node, at string) error {
	switch v.Kind() { //nolint:exhaustive // no other kind has fields
	case reflect.Pointer:
		return r.walkInto(v.Elem(), n, at)
	case reflect.Slice:
		for i := range v.Len() {
			if err := r.walkInto(v.Index(i), n, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		// Maps of structs are wholly kept, judged or refused: they have lines, and
		// an order would have to be made up here.
		return denied(at, "is not known to this version of sage, so what it would do is not either")
	case reflect.Struct:
		return r.walkStruct(v, n, at)
	}
	return nil
}

func (r *record) walkStruct(v reflect.Value, n *node, at string) error {
	for i := range v.NumField() {
		child := n.fields[i]
		if !child.active {
			continue
		}
		name := strings.Trim(at+"."+child.name, ".")
		if err := r.walkValue(v.Field(i), child, name); err != nil {
			return err
		}
	}
	return nil
}

// isSet tells whether a field asks for something. A pointer to a number or a
// truth value of zero does not: engines send those for what nobody asked.
func isSet(v reflect.Value) bool {
	switch v.Kind() { //nolint:exhaustive // the others ask unless they are zero
	case reflect.Pointer:
		return !v.IsNil() && (v.Elem().Kind() == reflect.Struct || isSet(v.Elem()))
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	default:
		return !v.IsZero()
	}
}
