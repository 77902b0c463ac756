// Package doctor asks the kernel what it enforces: for one process, to be
// compared with what the policy wants, and for the host, to say what sage will
// be able to enforce on it. It changes nothing and mends nothing: what a
// difference leads to is decided by its caller.
package doctor
