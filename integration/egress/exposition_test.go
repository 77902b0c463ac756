//go:build kernel

package egress

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// exposed are the numbers of one scrape, by metric and labels as they were
// printed.
type exposed map[string]float64

var (
	sampleLine = regexp.MustCompile(`^([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} ([0-9.]+)$`)
	pairOf     = regexp.MustCompile(`^([a-z_]+)="(?:[^"\\\n]|\\["\\n])*"(?:,|$)`)
)

// parse reads Prometheus' text format, version 0.0.4, more strictly than
// Prometheus does: each metric has its help, its type and all its samples in one
// group, no series is there twice, every label once, names follow the
// conventions, and the text ends with a line break.
func parse(t *testing.T, text string) exposed {
	t.Helper()
	e, seen := exposed{}, map[string]bool{}
	if !strings.HasSuffix(text, "\n") {
		t.Errorf("the text does not end with a line break: %q", text)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); {
		name, _, ok := strings.Cut(strings.TrimPrefix(lines[i], "# HELP "), " ")
		if !ok || lines[i] == name || i+2 >= len(lines) || seen[name] {
			t.Fatalf("line %d: saw %q, want the help of another metric", i, lines[i])
		}
		seen[name] = true
		kind, ok := strings.CutPrefix(lines[i+1], "# TYPE "+name+" ")
		if !ok || (kind == "counter") != strings.HasSuffix(name, "_total") || kind != "counter" && kind != "gauge" {
			t.Fatalf("line %d: saw %q, want the type of %s", i+1, lines[i+1], name)
		}
		begin := i + 2
		for i = begin; i < len(lines) && !strings.HasPrefix(lines[i], "#"); i++ {
			if err := e.sample(name, lines[i]); err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
		}
		if i == begin {
			t.Errorf("%s: saw no sample", name)
		}
	}
	return e
}

func (e exposed) sample(metric, line string) error {
	m := sampleLine.FindStringSubmatch(line)
	if m == nil || m[1] != metric {
		return fmt.Errorf("saw %q, want a sample of %s", line, metric)
	}
	labels := map[string]bool{}
	for rest := m[2]; rest != ""; {
		p := pairOf.FindStringSubmatch(rest)
		if p == nil || labels[p[1]] {
			return fmt.Errorf("saw %q, want every label once", line)
		}
		labels[p[1]] = true
		rest = rest[len(p[0]):]
	}
	series := m[1] + "{" + m[2] + "}"
	if _, twice := e[series]; twice {
		return fmt.Errorf("saw %s twice", series)
	}
	n, err := strconv.ParseFloat(m[3], 64)
	e[series] = n
	return err
}

// of is the number of one container, -1 where there is none.
func (e exposed) of(metric, id, profile, more string) float64 {
	n, ok := e[fmt.Sprintf(`%s{id="%s",profile="%s"%s}`, metric, id, profile, more)]
	if !ok {
		return -1
	}
	return n
}

// has says whether anything is told of a container.
func (e exposed) has(id string) bool {
	for series := range e {
		if strings.Contains(series, `id="`+id+`"`) {
			return true
		}
	}
	return false
}
