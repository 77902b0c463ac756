package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// outcome is what became of one test. The zero value is a test that never
// reported, which counts as a failure wherever runc's passed.
type outcome int

const (
	absent outcome = iota
	failed
	skipped
	passed
)

func (o outcome) String() string {
	switch o {
	case absent:
		return "did not report"
	case failed:
		return "failed"
	case skipped:
		return "skipped"
	case passed:
		return "passed"
	}
	return "outcome " + strconv.Itoa(int(o))
}

// result is one test, under a key that is the same in both runs.
type result struct {
	key     string
	outcome outcome
	lines   []string // what bats printed below a failure
}

// report is a whole log, in its own order.
type report struct {
	results    []result
	unfinished []string // files that reported fewer tests than they announced
}

// fileMark starts the part of one bats file in the log. bats itself never says
// which file a test is from, and titles repeat between files.
const fileMark = "# bats file: "

var (
	planLine = regexp.MustCompile(`^1\.\.(\d+)$`)
	testLine = regexp.MustCompile(`^(ok|not ok) \d+ (.*)$`)
	// A directive ends the line; " # " inside a title is part of the title.
	directive = regexp.MustCompile(`(?i)\s+# (skip|timeout)\b.*$`)
)

type tapParser struct {
	report
	file      string
	seen      map[string]int
	announced int // -1 until the file's plan
	got       int
}

// parseTAP reads the log of a run: for each file a mark, then bats's TAP.
// Lines that are no TAP are what tests wrote past bats, and are passed over.
func parseTAP(r io.Reader) (report, error) {
	p := tapParser{seen: map[string]int{}}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		p.line(strings.TrimRight(line, "\r\n"))
		if err == io.EOF {
			p.closeFile()
			return p.report, nil
		}
		if err != nil {
			return report{}, fmt.Errorf("read TAP: %w", err)
		}
	}
}

func (p *tapParser) line(line string) {
	// The terminal's own carriage returns can end up before a line too.
	line = strings.TrimLeft(line, "\r")
	if name, ok := strings.CutPrefix(line, fileMark); ok {
		p.closeFile()
		p.file, p.announced, p.got = name, -1, 0
		return
	}
	if m := planLine.FindStringSubmatch(line); m != nil && p.announced < 0 {
		p.announced, _ = strconv.Atoi(m[1])
		return
	}
	if m := testLine.FindStringSubmatch(line); m != nil {
		p.test(m[1] == "ok", m[2])
		return
	}
	p.detail(line)
}

func (p *tapParser) test(ok bool, title string) {
	p.got++
	r := result{outcome: failed}
	if m := directive.FindStringSubmatch(title); m != nil {
		title = strings.TrimSuffix(title, m[0])
		ok = ok && strings.EqualFold(m[1], "skip")
		r.outcome = skipped
	} else if ok {
		r.outcome = passed
	}
	if !ok {
		r.outcome = failed
	}
	r.key = p.key(title)
	p.results = append(p.results, r)
}

// key tells apart tests of one title in one file by their order.
func (p *tapParser) key(title string) string {
	key := p.file + ": " + strings.TrimSpace(title)
	p.seen[key]++
	if n := p.seen[key]; n > 1 {
		return fmt.Sprintf("%s (%d)", key, n)
	}
	return key
}

func (p *tapParser) detail(line string) {
	text, ok := strings.CutPrefix(line, "# ")
	if !ok || len(p.results) == 0 {
		return
	}
	if last := &p.results[len(p.results)-1]; last.outcome == failed {
		last.lines = append(last.lines, text)
	}
}

func (p *tapParser) closeFile() {
	if p.file != "" && p.got != p.announced {
		p.unfinished = append(p.unfinished, p.file)
	}
}
