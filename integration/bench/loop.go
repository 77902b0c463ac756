package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed payload/loop.c
var loopSource []byte

// loops are the bundles whose system calls are timed, each so many in a round
// that it takes some milliseconds: getppid, which does least, and ioctl, of which
// the second layer looks at an argument. For such a call the kernel remembers no
// verdict and asks every layer again, Docker's too, whatever the layer's size:
// ruled shows what that alone costs.
var loops = map[string][]string{
	"getppid":     {"getppid", "20000"},
	"ioctl":       {"ioctl", "10000"},
	"ioctl-ruled": {"ioctl", "10000", "ruled"},
}

// makeLoops builds the program into the root file system, with a bundle for each
// call that has Docker's default filter: what a container has anyway.
func (l *lab) makeLoops(ctx context.Context, text []byte) error {
	source := filepath.Join(l.dir, "loop.c")
	if err := os.WriteFile(source, loopSource, 0o600); err != nil {
		return err
	}
	if err := command(ctx, "cc", "-static", "-O2", "-o", filepath.Join(l.dir, "rootfs", "bin", "loop"), source); err != nil {
		return err
	}
	filtered, err := withDockerFilter(ctx, text)
	if err != nil {
		return err
	}
	errs := []error{l.writeBundle("layers", filtered, "/bin/grep", "Seccomp_filters", "/proc/self/status")}
	for name, args := range loops {
		errs = append(errs, l.writeBundle(name, filtered, append([]string{"/bin/loop"}, args...)...))
	}
	return errors.Join(errs...)
}

// withDockerFilter has the module that the ring's dockerd is built from say what
// the filter is.
func withDockerFilter(ctx context.Context, config []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join("integration", "peers", "moby"), "run", "./defaultseccomp")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdin = bytes.NewReader(config)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask for Docker's default filter (run from the top of the checkout): %w: %s", err, said.Bytes())
	}
	return out, nil
}

// timeLoop gives what the loop measured itself, so that the start of its
// container does not count.
func timeLoop(bundle string) func(context.Context, *contender) (sample, error) {
	return timeLoops(bundle, bundle)
}

// timeLoops is timeLoop with another bundle for runc.
func timeLoops(theirs, ours string) func(context.Context, *contender) (sample, error) {
	return func(ctx context.Context, r *contender) (sample, error) {
		bundle := ours
		if r.name == "runc" {
			bundle = theirs
		}
		out, err := r.output(ctx, "run", "--bundle", r.lab.bundle(bundle), r.newID())
		if err != nil {
			return sample{}, err
		}
		return parseLoop(out)
	}
}

func parseLoop(out string) (sample, error) {
	var wall, cpu time.Duration
	if _, err := fmt.Sscanf(out, "%d %d", &wall, &cpu); err != nil || wall <= 0 {
		return sample{}, fmt.Errorf("the loop said %q, want two numbers of nanoseconds", out)
	}
	return sample{wall, cpu}, nil
}

// checkLayers proves that what is compared differs as it should: a policy that
// is not enforced costs nothing.
func (l *lab) checkLayers(ctx context.Context) error {
	theirs, err := l.runc.layers(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		*contender
		more int
	}{{l.sage, 0}, {l.policy, 1}} {
		if len(c.flags) == 0 {
			continue // -self
		}
		ours, err := c.layers(ctx)
		if err == nil && ours != theirs+c.more {
			err = fmt.Errorf("%s has %d layers of seccomp, want %d: runc has %d", c.name, ours, theirs+c.more, theirs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkProxied proves that a container has a proxy, which says no to what is not
// allowed: one that is not there costs nothing.
func (r *contender) checkProxied(ctx context.Context) error {
	if len(r.flags) == 0 {
		return nil // -self
	}
	out, err := r.output(ctx, "run", "--bundle", r.lab.bundle("ask"), r.newID())
	if err == nil && !strings.Contains(out, "403") {
		err = fmt.Errorf("a request that the policy denies: saw %q, want the proxy's 403", out)
	}
	return err
}

func (r *contender) layers(ctx context.Context) (int, error) {
	out, err := r.output(ctx, "run", "--bundle", r.lab.bundle("layers"), r.newID())
	if err != nil {
		return 0, err
	}
	var n int
	if _, err := fmt.Sscanf(out, "Seccomp_filters: %d", &n); err != nil {
		return 0, fmt.Errorf("count of seccomp layers: saw %q", out)
	}
	return n, nil
}
