package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// cgroup2 is where the tree of cgroup v2 is mounted. On a host that has both
// versions, libcontainer makes a cgroup in that tree as well, though it ignores
// where it cannot.
func cgroup2() (string, error) {
	switch {
	case cgroups.IsCgroup2UnifiedMode():
		return "/sys/fs/cgroup", nil
	case cgroups.IsCgroup2HybridMode():
		return "/sys/fs/cgroup/unified", nil
	}
	return "", errcode.Wrap(errcode.NetworkGuardUnsupported, "look for the tree of cgroup v2",
		errors.New("saw none at /sys/fs/cgroup or /sys/fs/cgroup/unified, want one for the packet guard: mount cgroup v2, or use the mode unrestricted"))
}

// joinGroup opens the container's cgroup of version 2, having seen to it that
// init is in it: a guard on a cgroup says nothing about who is elsewhere.
func joinGroup(dirs map[string]string, pid int) (*os.File, error) {
	group, err := tryJoin(dirs[""], pid)
	return group, errcode.Wrap(errcode.NetworkGuardFailed, "put init into its cgroup of version 2", err)
}

func tryJoin(dir string, pid int) (*os.File, error) {
	if dir == "" {
		return nil, errors.New("saw no such cgroup of the container")
	}
	in, err := isMember(dir, pid)
	if err == nil && !in {
		err = cgroups.WriteCgroupProc(dir, pid)
		if err == nil {
			in, err = isMember(dir, pid)
		}
	}
	if err == nil && !in {
		err = fmt.Errorf("saw process %d elsewhere, want it in %s", pid, dir)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(dir)
}

// isMember reads cgroup.procs, which has the numbers of our pid namespace.
func isMember(dir string, pid int) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, os.MkdirAll(dir, 0o755)
	}
	return slices.Contains(strings.Fields(string(data)), strconv.Itoa(pid)), err
}

// helperGroup is the cgroup of a container's bridge and proxy: neither the
// container's, in which they would be counted and guarded, nor the engine's,
// whose service manager would end them with it. It lies at the top of the tree,
// as the cgroups do that the cgroupfs driver makes: systemd leaves there what it
// has not made, and a transient unit for two idle processes would cost a
// start many times what they do. Its name follows from the container's id and
// the root, so that a delete finds it without any record.
func (h *Host) helperGroup(id string) (string, error) {
	root, err := cgroup2()
	if err == nil && (id != filepath.Base(id) || strings.HasPrefix(id, ".")) {
		err = errEmptyID // or another that names no container
	}
	sum := sha256.Sum256([]byte(realPath(absolute(h.Root)) + "\x00" + id))
	// NAME_MAX is 255, and an id may have 1024 bytes.
	name := fmt.Sprintf("%.200s-%s", id, hex.EncodeToString(sum[:8]))
	return filepath.Join(root, "sage-egress", name), err
}

func (h *Host) makeHelperGroup(id string) (*os.File, error) {
	dir, err := h.helperGroup(id)
	if err != nil {
		return nil, err
	}
	// Whoever ends the last container takes the folder of all away, maybe now.
	for range 3 {
		if err = os.MkdirAll(dir, 0o755); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(dir)
}

// Helpers end by themselves when the container's cgroup is empty, the proxy once
// it has written down what it was about. lastLines is how long that may take
// until they are killed, endPatience until they are gone then.
const (
	lastLines   = 300 * time.Millisecond
	endPatience = 5 * time.Second
)

// endNetwork ends the bridge and the proxy of a container, with every connection
// that they have. Their files lie in the state directory, the guard on the
// container's cgroup: they go with these. Nothing there is fine.
func (h *Host) endNetwork(id string) error {
	dir, err := h.helperGroup(id)
	if err != nil {
		return nil //nolint:nilerr // without the tree nothing could be started
	}
	if _, err := os.Lstat(dir); err != nil {
		return nil //nolint:nilerr // most have none
	}
	gone := func() bool {
		err = os.Remove(dir)
		return err == nil || errors.Is(err, fs.ErrNotExist)
	}
	if !waitUntil(lastLines, gone) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		waitUntil(endPatience, gone)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(filepath.Dir(dir)) // not empty while others have helpers
		return nil
	}
	return errcode.Wrap(errcode.CleanupIncomplete, "end the container's proxy", err)
}
