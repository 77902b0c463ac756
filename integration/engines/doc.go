// Package engines is the ring in which real engines (dockerd, containerd with
// ctr, nerdctl, crictl, and podman) run containers with the built
// sage-runtime and containerd-shim-sage-v2. It is not a way to use engines
// from other code: it holds tests only, behind the build tag "engines".
package engines
