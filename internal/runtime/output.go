package runtime

import (
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sampler"
)

// countsOutput says whether somebody stands between the container and the reader
// of its output: this process where it waits, or our shim, which says so.
func (l *Launch) countsOutput() bool {
	return !l.detached() || l.created && l.Getenv(sampler.OutputEnv) != ""
}

// countOutput gives nil where this process has nothing to count.
func (a *admission) countOutput(l *Launch) *sampler.Output {
	if limit := a.record.Policy.Process.MaxOutputBytes; limit > 0 && !l.detached() {
		return sampler.NewOutput(limit)
	}
	return nil
}

// guardOutput is called right before the program of run begins.
func (a *admission) guardOutput(l *Launch, output *sampler.Output, pid int) error {
	if output == nil {
		return nil
	}
	init, err := sampler.Identify(pid)
	if err != nil {
		return errcode.Wrap(errcode.WatchFailed, "count the output", err)
	}
	output.Guard(l.Host.stateDir(l.ID), init, a.cgroups)
	return nil
}

// divertOutput tells our shim, who waits for us, that it has to count.
func (a *admission) divertOutput(l *Launch) error {
	if a.record.Policy.Process.MaxOutputBytes == 0 {
		return nil
	}
	return errcode.Wrap(errcode.WatchFailed, "have the output counted", sampler.Divert(l.Getenv(sampler.OutputEnv)))
}
