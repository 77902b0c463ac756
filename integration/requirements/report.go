package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// report is the catalogue against the claims.
type report struct {
	proved   []proof
	unproved []requirement
	unknown  []claim
}

// proof is one requirement and the tests that name it.
type proof struct {
	requirement
	tests []string
}

var attack = regexp.MustCompile(`^attack ([1-9]|1[0-9]|20)$`)

func compare(catalogue []requirement, claims []claim) *report {
	tests := byID(claims)
	var r report
	for _, req := range catalogue {
		if by, ok := tests[req.id]; ok {
			r.proved = append(r.proved, proof{req, by})
		} else {
			r.unproved = append(r.unproved, req)
		}
		delete(tests, req.id)
	}
	// The attacks on drafts of the design have numbers too, and a document of
	// their own.
	maps.DeleteFunc(tests, func(id string, _ []string) bool { return attack.MatchString(id) })
	r.unknown = flat(tests) // what no requirement took away
	return &r
}

// byID gives the tests that name an id, each once.
func byID(claims []claim) map[string][]string {
	tests := map[string][]string{}
	for _, c := range claims {
		if !slices.Contains(tests[c.id], c.test) {
			tests[c.id] = append(tests[c.id], c.test)
		}
	}
	return tests
}

func flat(tests map[string][]string) []claim {
	var claims []claim
	for _, id := range slices.Sorted(maps.Keys(tests)) {
		for _, test := range tests[id] {
			claims = append(claims, claim{id, test})
		}
	}
	return claims
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "Proved by a test: %d of %d\n\n", len(r.proved), len(r.proved)+len(r.unproved))
	for _, p := range r.proved {
		line(w, p.id, short(p.title))
		line(w, "", strings.Join(p.tests, ", "))
	}
	fmt.Fprintf(w, "\nNot proved: %d\n\n", len(r.unproved))
	for _, req := range r.unproved {
		line(w, req.id, short(req.title))
	}
	if len(r.unknown) > 0 {
		fmt.Fprintf(w, "\nUnknown ids: %d\n\n", len(r.unknown))
	}
	for _, c := range r.unknown {
		line(w, c.id, c.test)
	}
}

func line(w io.Writer, id, text string) { fmt.Fprintf(w, "  %-6s %s\n", id, text) }

// short keeps a title to one line of a terminal.
func short(title string) string {
	const most = 100
	letters := []rune(title)
	if len(letters) <= most {
		return title
	}
	return string(letters[:most-3]) + "..."
}
