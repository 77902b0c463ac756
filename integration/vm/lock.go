package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock lets one guest run on a machine at a time: two in emulation on two
// processors only time each other out. It is gone with the process.
func lock(ctx context.Context, stderr io.Writer) (unlock func(), err error) {
	path := filepath.Join(os.TempDir(), "sage-vm.lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = f.Close() }
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return unlock, nil
	}
	fmt.Fprintln(stderr, "vm: another guest runs; waiting for", path)
	// Waiting in the kernel keeps the order in which they came. Given up, the
	// thread waits on, but this process has nothing more to do then.
	done := make(chan error, 1)
	go func() { done <- flock(f) }()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-done:
		return unlock, os.NewSyscallError("flock "+path, err)
	}
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
