// Package sampler ends containers that the kernel does not end by itself: when
// their time is up, and in soft mode (require_hard_limits: false) when they use
// more than they were granted of what no controller of the kernel limits. It
// says why a container ended, too.
//
// What it does is no wall: it looks every 100 ms, and a program that knows of it
// can use more for a moment, or hide what it uses; see README.md. It never takes
// away from the isolation, and a container that it cannot look at is killed.
package sampler
