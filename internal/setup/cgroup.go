package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// cgroupMount is where every distribution mounts cgroup v2.
const cgroupMount = "/sys/fs/cgroup"

// controllers are those that hard limits need.
var controllers = []string{"cpu", "memory", "pids"}

// cgroup makes the cgroup root and hands the controllers down to what will be
// below it. A controller that is on there cannot be turned off above (the
// kernel says EBUSY), so that systemd, which owns what is above, leaves it.
func (j *job) cgroup() error {
	rel, err := filepath.Rel(cgroupMount, j.Cgroup)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return fmt.Errorf("cgroup root: saw %s, want a path below %s", j.Cgroup, cgroupMount)
	}
	dir := cgroupMount
	if err := j.enable(dir); err != nil {
		return err
	}
	for name := range strings.SplitSeq(rel, "/") {
		dir = filepath.Join(dir, name)
		if err := j.cgroupDirectory(dir); err != nil {
			return err
		}
		if err := j.enable(dir); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) cgroupDirectory(dir string) error {
	there, err := isDirectory(dir)
	if err != nil {
		return err
	}
	if there {
		return j.already("cgroup", dir)
	}
	return j.make("cgroup", item{Kind: kindCgroup, Path: dir}, dir, func(*item) error { return makeDirectory(dir, 0o755) })
}

// enable turns on, for what is below dir, the controllers that are not.
func (j *job) enable(dir string) error {
	on, err := words(dir, "cgroup.subtree_control")
	if j.DryRun && errors.Is(err, fs.ErrNotExist) {
		err = nil // it would be made
	}
	if err != nil {
		return err
	}
	lacking := slices.DeleteFunc(slices.Clone(controllers), func(c string) bool { return slices.Contains(on, c) })
	what := strings.Join(controllers, " ") + " below " + dir
	if len(lacking) == 0 {
		return j.already("cgroup", what)
	}
	it := item{Kind: kindControllers, Path: dir, Text: strings.Join(lacking, " ")}
	return j.make("cgroup", it, what, func(*item) error { return writeControllers(dir, "+", lacking) })
}

// writeControllers writes them one by one: written together, it would not be
// said which one is not to be had.
func writeControllers(dir, sign string, names []string) error {
	path := filepath.Join(dir, "cgroup.subtree_control")
	for _, name := range names {
		err := writeKernel(path, sign+name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = fmt.Errorf("%s: saw no controller %s there, want it: it is with cgroup v1, or not delegated to this cgroup", dir, name)
			return errcode.Wrap(errcode.ResourceLimitsUnsupported, "enable controllers", err)
		// The second where a controller of threads, like cpu, was let in before.
		case (errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EOPNOTSUPP)) && sign == "+":
			return fmt.Errorf("%s: saw processes in this cgroup, want them in one below it, or elsewhere: controllers are for cgroups without (cgroups(7)): %w", dir, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// writeKernel never creates: a file that the kernel does not have must fail.
func writeKernel(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func words(dir, file string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(data)), err
}

// cgroupsBelow are the names of the cgroups in dir.
func cgroupsBelow(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}
