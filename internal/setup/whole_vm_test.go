//go:build vm

package setup

// whole: the guest has cgroup v2 and XFS with quotas, so that all of setup runs.
const whole = true
