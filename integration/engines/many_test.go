//go:build engines

package engines

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// failures are the errors of calls that were made at once.
type failures []error

// atOnce calls f with 0 to n-1, all together.
func atOnce(n int, f func(int) error) failures {
	errs := make(failures, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errs
}

// want fails the test if there was any error.
func (f failures) want(t *testing.T, doing string) {
	t.Helper()
	for i, err := range f {
		if err != nil {
			t.Errorf("%s number %d: %v", doing, i, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// failed is the error of a command that should have succeeded.
func (r result) failed(err error) error {
	if err == nil && r.code != 0 {
		return fmt.Errorf("exit %d: %s%s", r.code, r.errs, r.out)
	}
	return err
}

// wantNothingOf looks for anything in the capsule that still names one of the
// containers: a process, a mount, a cgroup, state of a runtime or a bundle.
func wantNothingOf(t *testing.T, ids []string) {
	t.Helper()
	left := view{}.awaitSame(func() view { return namesAny(capsuleView(), ids) })
	for _, l := range left {
		t.Errorf("left behind: %s", l)
	}
}

func namesAny(v view, ids []string) view {
	var found view
	for _, line := range v {
		for _, id := range ids {
			if strings.Contains(line, id) {
				found = append(found, line)
				break
			}
		}
	}
	return found
}
