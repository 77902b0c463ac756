package spec

import (
	"fmt"
	"strings"
	"testing"
)

// shape is a tree as text.
func (n *node) shape(out *strings.Builder) {
	switch n.kind {
	case nodeMap:
		out.WriteString("{")
		for i, key := range n.keys {
			key.shape(out)
			n.values[i].shape(out)
		}
		out.WriteString("}")
	case nodeList:
		out.WriteString("[")
		for _, v := range n.values {
			v.shape(out)
		}
		out.WriteString("]")
	case nodeNull, nodeString, nodeBool, nodeInt, nodeFloat, nodeDate:
		fmt.Fprintf(out, "%s:%s@%d ", [...]string{"null", "str", "bool", "int", "float", "date"}[n.kind], n.text, n.line)
	}
}

func TestDocument(t *testing.T) {
	tests := map[string]string{
		"a: 1":                            "{str:a@1 int:1@1 }",
		"a:\n- b\n- {c: d}\n":             "{str:a@1 [str:b@2 {str:c@3 str:d@3 }]}",
		"{\"a\":1,\"b\":[true,null]}":     "{str:a@1 int:1@1 str:b@1 [bool:true@1 null:null@1 ]}",
		"a: yes\nb: 010\nc: 1.5\nd: .nan": "{str:a@1 str:yes@1 str:b@2 int:010@2 str:c@3 float:1.5@3 str:d@4 float:.nan@4 }",
		"a: 2020-01-01\nb: \"1\"\n":       "{str:a@1 date:2020-01-01@1 str:b@2 str:1@2 }",
		"---\na: http://x:80/y#z # c\n":   "{str:a@2 str:http://x:80/y#z@2 }",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			n, err := document([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			n.shape(&got)
			if got.String() != want {
				t.Errorf("got %s, want %s", got.String(), want)
			}
		})
	}
}

// TestDocumentRefuses: YAML by which one text can mean two things, and bombs.
func TestDocumentRefuses(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", "the file is empty"},
		{"a comment", "# x\n", "the file is empty"},
		{"anchor", "a: &b c\n", "line 1: saw an anchor"},
		{"alias", "x: &b c\na: b\nc: *b\n", "saw an anchor or an alias"},
		{"bomb", "a: &a [x, x]\nb: &b [*a, *a]\n", "line 1: saw an anchor"},
		{"tag", "a: !!str b\n", "line 1: saw a tag"},
		{"own tag", "a: !b c\n", "line 1: saw a tag"},
		{"merge key", "a:\n  <<: {b: c}\n", "line 2: saw a merge"},
		{"second document", "a: b\n---\nc: d\n", "saw a second document"},
		{"broken second document", "a: b\n---\n[\n", "not valid YAML"},
		{"nested for ever", strings.Repeat("[", 9_000), "not valid YAML"},
		{"nested deep", strings.Repeat("[", 40) + strings.Repeat("]", 40), "more than 32 levels"},
		{"zero byte", "a: b\x00", "not a text"},
		{"not UTF-8", "a: \xff", "not a text"},
		{"tab", "a:\n\tb: c\n", "not valid YAML: line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := document([]byte(tt.in))
			if n != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v, want an error with %q", n, err, tt.want)
			}
		})
	}
}
