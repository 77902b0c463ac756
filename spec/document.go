package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// node is one value of a document.
type node struct {
	kind   nodeKind
	text   string // of a scalar, as it is meant
	line   int
	keys   []*node // of a mapping, beside its values
	values []*node // of a mapping or a list
}

type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeString
	nodeBool
	nodeInt
	nodeFloat
	nodeDate
	nodeList
	nodeMap
)

// scalars are the kinds by YAML's tag. What has another (binary, merge keys) no
// configuration needs.
var scalars = map[string]nodeKind{
	"!!null": nodeNull, "!!str": nodeString, "!!bool": nodeBool, "!!int": nodeInt, "!!float": nodeFloat, "!!timestamp": nodeDate,
}

// maxDepth is far above the six levels that a configuration has.
const maxDepth = 32

// document reads the only document of a file, and refuses what lets one text
// mean different things to two readers: anchors, aliases, tags of its own.
func document(data []byte) (*node, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("not a text in UTF-8")
	}
	var first, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&first); err != nil {
		return nil, explainYAML(err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, fmt.Errorf("line %d: saw a second document, want one", second.Line)
	case !errors.Is(err, io.EOF):
		return nil, explainYAML(err)
	}
	return plain(first.Content[0], maxDepth)
}

func explainYAML(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New(`the file is empty, want at least "version: 1"`)
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
	return errors.New("not valid YAML: " + text)
}

// plain states n without what it refuses.
func plain(n *yaml.Node, depth int) (*node, error) {
	fault := func(text string) (*node, error) { return nil, fmt.Errorf("line %d: %s", n.Line, text) }
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fault("saw an anchor or an alias, want the values themselves")
	case n.Style&yaml.TaggedStyle != 0:
		return fault("saw a tag, want plain values")
	case depth == 0:
		return fault(fmt.Sprintf("saw more than %d levels", maxDepth))
	}
	out := &node{line: n.Line, text: n.Value}
	var ok bool
	switch n.Kind {
	case yaml.MappingNode:
		out.kind, ok = nodeMap, true
	case yaml.SequenceNode:
		out.kind, ok = nodeList, true
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
		out.kind, ok = scalars[n.ShortTag()]
	}
	if !ok {
		return fault("saw a " + strings.TrimPrefix(n.ShortTag(), "!!") + ", want plain values")
	}
	if err := out.fill(n.Content, depth-1); err != nil {
		return nil, err
	}
	return out, nil
}

// fill takes over the entries: of a mapping, keys and values by turns.
func (n *node) fill(content []*yaml.Node, depth int) error {
	for i, c := range content {
		child, err := plain(c, depth)
		if err != nil {
			return err
		}
		if n.kind == nodeMap && i%2 == 0 {
			n.keys = append(n.keys, child)
		} else {
			n.values = append(n.values, child)
		}
	}
	return nil
}
