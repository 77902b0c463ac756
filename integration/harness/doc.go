// Package harness is the ground that the kernel and engine rings and the
// benchmarks stand on: where binaries and root file systems are, bundles, runs
// of a runtime with a timeout, and a count of what a run left on the host. It
// holds no test itself and imports nothing of the product: it drives binaries.
package harness
