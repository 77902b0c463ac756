// Package xfs limits what a container may write by an XFS project quota. It
// takes an id out of the host's range, sets and reads back its limits, makes
// everything writable of a container count for it, and gives the id back once
// nothing counts for it any more. It is not a policy: which container gets what
// limit is its caller's business. All it does goes by descriptor and by
// quotactl_fd(2) of Linux 5.14; no other program is run.
package xfs
