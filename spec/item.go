package spec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// item is a node of the file with the dotted key that leads to it.
type item struct {
	*node

	key  string
	name string // the last part of key, as it stands in the file
}

// fault is an error that says where in the file it lies.
func (it item) fault(format string, args ...any) error {
	return faultAt(it.line, it.key, fmt.Errorf(format, args...))
}

func faultAt(line int, key string, err error) error {
	if line > 0 {
		key = "line " + strconv.Itoa(line) + ": " + key
	}
	return fmt.Errorf("%s: %w", key, err)
}

// wanted refuses a node of the wrong form.
func (it item) wanted(what string) error { return it.fault("saw %s, want %s", it.seen(), what) }

// seen says what stands there, and repeats numbers and flags only: a string may
// be a secret.
func (it item) seen() string {
	switch it.kind {
	case nodeNull:
		return "nothing"
	case nodeString:
		return "a string"
	case nodeBool, nodeInt, nodeFloat:
		return fmt.Sprintf("the %s %.32s", map[nodeKind]string{nodeBool: "flag", nodeInt: "number", nodeFloat: "number"}[it.kind], it.text)
	case nodeDate:
		return "a date"
	case nodeList:
		return "a list"
	case nodeMap:
		return "a mapping"
	}
	return "something"
}

// children are the entries of a mapping in the file's order, each key once.
func (it item) children() ([]item, error) {
	if it.kind != nodeMap {
		return nil, it.wanted("a mapping")
	}
	first := map[string]int{}
	var all []item
	for i, name := range it.keys {
		if name.kind != nodeString {
			return nil, item{node: name, key: it.key}.fault("saw %s for a key, want a name", item{node: name}.seen())
		}
		child := item{it.values[i], join(it.key, name.text), name.text}
		if line, twice := first[name.text]; twice {
			return nil, faultAt(name.line, child.key, fmt.Errorf("given twice, first in line %d", line))
		}
		first[name.text] = name.line
		all = append(all, child)
	}
	return all, nil
}

// join makes a dotted key; a name that is not one of ours may hold anything.
func join(key, name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '.' || r > '~' }) || len(name) > 64 {
		name = fmt.Sprintf("%.64q", name)
	}
	if key == "" {
		return name
	}
	return key + "." + name
}

// fields hands every entry of a mapping to the reader of its name.
func (it item) fields(known map[string]func(item) error) error {
	children, err := it.children()
	if err != nil {
		return err
	}
	for _, child := range children {
		read, ok := known[child.name]
		if !ok {
			return child.fault("no such key here, want one of %s", listText(slices.Sorted(maps.Keys(known))))
		}
		if err := read(child); err != nil {
			return err
		}
	}
	return nil
}

func (it item) number() (int64, error) {
	n, ok := decimal(it.text)
	if !ok || it.kind != nodeInt {
		return 0, it.wanted("a whole number in decimal digits")
	}
	return n, nil
}

func (it item) flag() (bool, error) {
	if it.kind != nodeBool || it.text != "true" && it.text != "false" {
		return false, it.wanted("true or false")
	}
	return it.text == "true", nil
}

// string reads a string; String would be for whoever prints an item.
func (it item) string() (string, error) {
	if it.kind != nodeString {
		return "", it.wanted("a string")
	}
	return it.text, nil
}

// list reads a list of strings, or of numbers, which stay text here.
func (it item) list(kind nodeKind) ([]string, error) {
	if it.kind != nodeList {
		return nil, it.wanted("a list, as in [a, b]")
	}
	out := make([]string, len(it.values))
	for i, n := range it.values {
		entry := item{node: n, key: fmt.Sprintf("%s[%d]", it.key, i)}
		if n.kind != kind {
			return nil, entry.wanted(map[nodeKind]string{nodeString: "a string", nodeInt: "a number"}[kind])
		}
		out[i] = n.text
	}
	return out, nil
}
