package egress

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"sort"
	"strings"
)

// suffixes are the rules of the Public Suffix List that have a dot, each as
// eight hexadecimal digits of its hash, sorted, one a line. The package
// golang.org/x/net/publicsuffix, from which they are made and against which a
// test holds them, links net/http and crypto/tls: 0.3 ms at each of the starts
// of sage-runtime, of which a container takes several.
//
//go:embed suffixes.txt
var suffixes string

// hashLen is a line of suffixes without its end.
const hashLen = 8

// isPublicSuffix tells whether anybody can register names directly below name,
// or directly below every name of it: a wildcard there would allow the names
// of strangers. A name of one label counts as one, as the list's own default
// rule has it.
func isPublicSuffix(name string) bool {
	_, parent, found := strings.Cut(name, ".")
	switch {
	case !found || listed(name) || listed("*."+name):
		return true
	case listed("!" + name):
		return false
	}
	return listed("*." + parent)
}

// listed looks up one rule of the list, as the list writes it. With 32 bits a
// name that is not in it is taken for one in half a million times, and refused.
func listed(rule string) bool {
	want := ruleHash(rule)
	n := len(suffixes) / (hashLen + 1)
	line := func(i int) string { return suffixes[i*(hashLen+1):][:hashLen] }
	i := sort.Search(n, func(i int) bool { return line(i) >= want })
	return i < n && line(i) == want
}

func ruleHash(rule string) string {
	h := fnv.New32a()
	h.Write([]byte(rule))
	return fmt.Sprintf("%0*x", hashLen, h.Sum32())
}
