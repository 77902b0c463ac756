package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// kvmBound is generous: with KVM the guest is there in three seconds.
const kvmBound = 25 * time.Second

// chooseAccel believes in KVM when it has booted this kernel: there are
// machines where /dev/kvm opens and the guest then stands still.
func (r *ring) chooseAccel(ctx context.Context, k kernel) (string, error) {
	if r.accel != "auto" {
		return r.accel, nil
	}
	if !opens("/dev/kvm") {
		r.accel = "tcg"
		return r.accel, nil
	}
	key, err := machineKey()
	if err != nil {
		return "", err
	}
	stamp := filepath.Join(r.cache, "accel")
	if known, err := os.ReadFile(stamp); err == nil {
		if accel, found := strings.CutPrefix(string(known), key); found {
			r.accel = accel
			return r.accel, nil
		}
	}
	if r.accel, err = r.tryKVM(ctx, k); err != nil {
		return "", err
	}
	return r.accel, os.WriteFile(stamp, []byte(key+r.accel), 0o644)
}

func opens(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}

// machineKey changes with each boot of the host.
func machineKey() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + " " + unix.ByteSliceToString(u.Release[:]) + "\n", nil
}

func (r *ring) tryKVM(ctx context.Context, k kernel) (string, error) {
	m := machine{
		ring: r, kernel: k, accel: "kvm", timeout: kvmBound, out: io.Discard,
		plan: plan.Plan{Kernel: k.dir, Program: r.program(), Env: r.guestEnv(k), Jobs: []plan.Job{{Name: "kvm", Dir: "/", Args: []string{"true"}}}},
	}
	report, err := m.boot(ctx)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && !errors.Is(err, errDied):
		return "", err
	case err == nil && report.Error == "":
		return "kvm", nil
	default:
		fmt.Fprintf(r.stderr, "vm: KVM does not boot this kernel within %v; emulating\n", kvmBound)
		return "tcg", nil
	}
}
