package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// item is a node of the file with the dotted key that leads to it.
type item struct {
	*yaml.Node

	key  string
	name string // the last part of key, as it stands in the file
}

// fault is an error that says where in the file it lies.
func (it item) fault(format string, args ...any) error {
	return faultAt(it.Line, it.key, fmt.Errorf(format, args...))
}

func faultAt(line int, key string, err error) error {
	if line > 0 {
		key = "line " + strconv.Itoa(line) + ": " + key
	}
	return fmt.Errorf("%s: %w", key, err)
}

// wanted refuses a node of the wrong form.
func (it item) wanted(what string) error { return it.fault("saw %s, want %s", it.seen(), what) }

// seen says what stands there without repeating it: the file may hold secrets.
func (it item) seen() string {
	switch it.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	case yaml.ScalarNode, yaml.DocumentNode:
		return it.seenScalar()
	}
	return "nothing"
}

func (it item) seenScalar() string {
	switch tag := it.ShortTag(); tag {
	case "!!str":
		return "a string"
	case "!!null":
		return "nothing"
	case "!!bool", "!!int", "!!float":
		return fmt.Sprintf("the %s %.32s", tag[2:], it.Value)
	default:
		return "a " + strings.TrimPrefix(tag, "!!")
	}
}

// document reads the only document of a file, and refuses what lets one text
// mean different things to two readers: anchors, aliases, tags of its own.
func document(data []byte) (item, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return item{}, errors.New("not a text in UTF-8")
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		return item{}, explainYAML(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return item{}, fmt.Errorf("line %d: saw a second document, want one", second.Line)
	case !errors.Is(err, io.EOF):
		return item{}, explainYAML(err)
	}
	return item{Node: doc.Content[0]}, plain(&doc)
}

func explainYAML(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New(`the file is empty, want at least "version: 1"`)
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
	return errors.New("not valid YAML: " + text)
}

func plain(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: saw an anchor or an alias, want the values themselves", n.Line)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		return fmt.Errorf("line %d: saw a tag, want plain values", n.Line)
	}
	for _, child := range n.Content {
		if err := plain(child); err != nil {
			return err
		}
	}
	return nil
}

// children are the entries of a mapping in the file's order, each key once.
func (it item) children() ([]item, error) {
	if it.Kind != yaml.MappingNode {
		return nil, it.wanted("a mapping")
	}
	first := map[string]int{}
	var all []item
	for i := 0; i+1 < len(it.Content); i += 2 {
		name := item{Node: it.Content[i], key: it.key}
		if name.Kind != yaml.ScalarNode || name.ShortTag() != "!!str" {
			return nil, name.fault("saw %s for a key, want a name", name.seen())
		}
		child := item{it.Content[i+1], join(it.key, name.Value), name.Value}
		if line, twice := first[name.Value]; twice {
			return nil, faultAt(name.Line, child.key, fmt.Errorf("given twice, first in line %d", line))
		}
		first[name.Value] = name.Line
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

func (it item) isScalar(tag string) bool { return it.Kind == yaml.ScalarNode && it.ShortTag() == tag }

func (it item) number() (int64, error) {
	n, ok := decimal(it.Value)
	if !ok || !it.isScalar("!!int") {
		return 0, it.wanted("a whole number in decimal digits")
	}
	return n, nil
}

func (it item) flag() (bool, error) {
	if !it.isScalar("!!bool") || it.Value != "true" && it.Value != "false" {
		return false, it.wanted("true or false")
	}
	return it.Value == "true", nil
}

func (it item) text() (string, error) {
	if !it.isScalar("!!str") {
		return "", it.wanted("a string")
	}
	return it.Value, nil
}

// list reads a sequence of strings, or of numbers, which stay text here.
func (it item) list(tag string) ([]string, error) {
	if it.Kind != yaml.SequenceNode {
		return nil, it.wanted("a list, as in [a, b]")
	}
	out := make([]string, len(it.Content))
	for i, n := range it.Content {
		entry := item{Node: n, key: fmt.Sprintf("%s[%d]", it.key, i)}
		if !entry.isScalar(tag) {
			return nil, entry.wanted(map[string]string{"!!str": "a string", "!!int": "a number"}[tag])
		}
		out[i] = n.Value
	}
	return out, nil
}
