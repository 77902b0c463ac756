package main

import (
	"context"
	"slices"
	"strings"
	"time"
)

// againTimes is how often a file is run again in which a test failed with sage
// alone. Some tests of the suite allow a signal or a file system so many
// milliseconds, and a busy machine takes more, with either runtime. A fault of
// ours that shows once in two runs still fails here three times in four.
const againTimes = 2

// again runs the files of v's failures once more. A test that now passes every
// time is moved to unsteady, which the table names: no failure goes unseen.
func (s *suite) again(ctx context.Context, sage contender, v *verdict, limit time.Duration) error {
	all := s.files
	defer func() { s.files = all }()
	sage.name += "-again" // a log of its own
	for range againTimes {
		failing := v.sageOnlyFailed
		if len(failing) == 0 {
			return nil
		}
		s.files = filesOf(failing)
		r, err := s.runInstalled(ctx, sage, limit)
		if err != nil {
			return err
		}
		v.retried = append(v.retried, byKey(r.results))
	}
	v.forgive()
	return nil
}

// filesOf returns the bats files of the results, each once; a key begins with
// its file.
func filesOf(results []result) []string {
	var files []string
	for _, r := range results {
		if file, _, ok := strings.Cut(r.key, ":"); ok && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// forgive moves the failures that passed in all further runs.
func (v *verdict) forgive() {
	var still []result
	for _, r := range v.sageOnlyFailed {
		passes := func(run map[string]result) bool { return run[r.key].outcome == passed }
		if len(v.retried) > 0 && !slices.ContainsFunc(v.retried, func(run map[string]result) bool { return !passes(run) }) {
			v.unsteady = append(v.unsteady, r)
		} else {
			still = append(still, r)
		}
	}
	v.sageOnlyFailed = still
}
