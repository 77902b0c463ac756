package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// verdict sorts the tests of two runs by what they say together.
type verdict struct {
	bothPassed, bothSkipped int
	bothFailed              []string
	sageOnlyFailed          []result // passed with runc; sage's own outcome
	excepted                []string // of those, the ones with a checked-in reason
	sageOnlyPassed          []string
	differs                 []string // any other difference, such as skipped here and failed there
	stale                   []string // exceptions that sage does not need
	unknown                 []string // exceptions of which the suite has no such test
	unsteady                []result // failed with sage alone, and passed in each run after
	retried                 []map[string]result
	strict                  bool // a stale exception is an error
}

// judge compares by key. runc's real passes are the whole of the promise, so a
// test that sage skips, or that never reported, is as bad as one that it fails.
func judge(runc, sage []result, exceptions map[string]string) verdict {
	theirs := byKey(runc)
	ours := byKey(sage)
	var v verdict
	for _, r := range runc {
		v.add(r, ours[r.key], exceptions)
	}
	for _, r := range sage {
		if _, ok := theirs[r.key]; !ok {
			v.add(result{key: r.key}, r, exceptions)
		}
	}
	v.unknown = unknown(filesOf(runc), theirs, exceptions)
	return v
}

// unknown finds exceptions that name no test of the files that were run: a typing
// error, or what a new release of the suite has dropped.
func unknown(files []string, theirs map[string]result, exceptions map[string]string) []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(exceptions)) {
		file, _, _ := strings.Cut(key, ":")
		if _, ok := theirs[key]; !ok && slices.Contains(files, file) {
			names = append(names, key)
		}
	}
	return names
}

func byKey(results []result) map[string]result {
	m := make(map[string]result, len(results))
	for _, r := range results {
		m[r.key] = r
	}
	return m
}

func (v *verdict) add(runc, sage result, exceptions map[string]string) {
	sage.key = runc.key
	reason, excepted := exceptions[runc.key]
	if excepted && sage.outcome == passed {
		v.stale = append(v.stale, runc.key)
	}
	switch {
	case runc.outcome == passed && sage.outcome == passed:
		v.bothPassed++
	case runc.outcome == passed && excepted:
		v.excepted = append(v.excepted, runc.key+": "+reason)
	case runc.outcome == passed:
		v.sageOnlyFailed = append(v.sageOnlyFailed, sage)
	case sage.outcome == passed:
		v.sageOnlyPassed = append(v.sageOnlyPassed, fmt.Sprintf("%s (runc: %s)", runc.key, runc.outcome))
	case runc.outcome == skipped && sage.outcome == skipped:
		v.bothSkipped++
	case runc.outcome == failed && sage.outcome == failed:
		v.bothFailed = append(v.bothFailed, runc.key)
	default:
		v.differs = append(v.differs, fmt.Sprintf("%s (runc: %s, sage: %s)", runc.key, runc.outcome, sage.outcome))
	}
}

// err is what the exit status says: nil only for a comparison that was whole
// and that sage came out of as good as runc.
func (v verdict) err(runs [2]outcomeOf) error {
	if n := len(v.sageOnlyFailed); n > 0 {
		return fmt.Errorf("%d of the tests that runc passes do not pass with sage", n)
	}
	if err := v.listErr(); err != nil {
		return err
	}
	if v.bothPassed == 0 {
		return errors.New("no test passed with both: nothing was compared")
	}
	return v.cutShort(runs)
}

func (v verdict) listErr() error {
	if n := len(v.unknown); n > 0 {
		return fmt.Errorf("%d of the listed tests do not exist", n)
	}
	if n := len(v.stale); v.strict && n > 0 {
		return fmt.Errorf("%d of the tests that are listed as failing pass: take them from the list", n)
	}
	return nil
}

// cutShort: a file that stopped half-way in runc's run hides what it would have
// passed. Of sage's run every test that is missing was judged already; the tests
// that are missing with both are not, but for a list of known failures.
func (v verdict) cutShort(runs [2]outcomeOf) error {
	for _, r := range runs {
		if len(r.unfinished) > 0 && (r.name == runs[0].name || !v.strict) {
			return fmt.Errorf("files cut short with %s: %s", r.name, strings.Join(r.unfinished, " "))
		}
	}
	return nil
}

// parseExceptions reads "file.bats: title # reason" lines. The reason is not
// optional: an exception nobody can explain is a failure.
func parseExceptions(text string) (map[string]string, error) {
	exceptions := map[string]string{}
	for _, line := range listLines(text) {
		i := strings.LastIndex(line, " # ")
		if i < 0 {
			return nil, fmt.Errorf("exceptions.txt: %q has no reason", line)
		}
		exceptions[strings.TrimSpace(line[:i])] = strings.TrimSpace(line[i+3:])
	}
	return exceptions, nil
}
