// Package workload is the ring that runs what people run (Debian's Python,
// Node, git, gcc, Java, Go, PostgreSQL and others) under every profile and
// compares with a list of what is expected to break. It is no test of how a
// rule is enforced: that is the victim's part.
package workload
