// Package hardlimits drives the built runtime in a virtual machine that can
// hold hard limits: cgroup v2 alone, swap, and XFS with project quotas. Each
// limit is proven by its effect, and each read-back by somebody who writes
// something else. Its tests fail where a part of that machine is missing.
package hardlimits
