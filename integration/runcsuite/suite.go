package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const runcModule = "github.com/opencontainers/runc"

// suite is a scratch copy of runc's module, ready to run.
type suite struct {
	dir     string // holds tests/, and tmp/ while a run is on
	version string
	files   []string // names of bats files, in the order of the run
	cache   string   // where logs are kept
	stderr  io.Writer
}

// prepare makes the scratch copy. It lies under the system's own temporary
// folder, not the cache: user namespace tests reach their bundles as users who
// may not enter root's home.
func prepare(ctx context.Context, wanted []string, stderr io.Writer) (*suite, error) {
	if err := runScript(ctx, stderr, "integration/rootfs/build.sh", "busybox", "debian"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "runcsuite.")
	if err != nil {
		return nil, err
	}
	s := &suite{dir: dir, cache: filepath.Join(cacheDir(), "runcsuite"), stderr: stderr}
	if err := s.fill(ctx, wanted); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *suite) fill(ctx context.Context, wanted []string) error {
	source, version, err := moduleSource(ctx, "integration/peers/runc", runcModule)
	if err != nil {
		return err
	}
	s.version = version
	if err := errors.Join(os.Chmod(s.dir, 0o755), os.MkdirAll(s.cache, 0o755), os.CopyFS(s.dir, os.DirFS(source))); err != nil {
		return fmt.Errorf("copy the suite: %w", err)
	}
	if s.files, err = s.choose(wanted); err != nil {
		return err
	}
	return errors.Join(s.allowScripts(), s.linkImages(ctx), s.mirrorSpec(ctx), s.buildHelpers(ctx))
}

// allowScripts gives back the permission that a module zip does not carry.
func (s *suite) allowScripts() error {
	return filepath.WalkDir(filepath.Join(s.dir, "tests"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".sh" {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
}

func (s *suite) remove() {
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(s.stderr, "runcsuite: left behind:", err)
	}
}

// moduleSource asks the go command, so that the suite is the one of the runc
// that integration/peers builds, and its hash has been checked.
func moduleSource(ctx context.Context, in, module string) (dir, version string, err error) {
	cmd := exec.CommandContext(ctx, "go", "-C", in, "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("find %s (run from the top of the checkout): %w", module, err)
	}
	var m struct{ Dir, Version string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", "", fmt.Errorf("find %s: %w", module, err)
	}
	return m.Dir, m.Version, nil
}

func (s *suite) integration(name string) string {
	return filepath.Join(s.dir, "tests", "integration", name)
}

func (s *suite) choose(wanted []string) ([]string, error) {
	paths, err := filepath.Glob(s.integration("*.bats"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no bats files in %s %s", runcModule, s.version)
	}
	var all []string
	for _, p := range paths {
		all = append(all, filepath.Base(p))
	}
	for _, name := range wanted {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("runc %s has no %s", s.version, name)
		}
	}
	if len(wanted) > 0 {
		return wanted, nil
	}
	return all, nil
}

func (s *suite) buildHelpers(ctx context.Context) error {
	if err := os.Mkdir(filepath.Join(s.dir, "tests", "cmd", "_bin"), 0o755); err != nil {
		return err
	}
	env := []string{"CGO_ENABLED=1", "GOFLAGS=-buildvcs=false", "GOWORK=off"}
	return command(ctx, s.dir, env, "go", "build", "-tags", "seccomp", "-o", "tests/cmd/_bin/", "./tests/cmd/...")
}

func runScript(ctx context.Context, stderr io.Writer, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{script}, args...)...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s (run from the top of the checkout): %w", script, err)
	}
	return nil
}

// programs are what the suite and its runner call, with Debian's package.
var programs = map[string]string{
	"bats": "bats", "jq": "jq", "gawk": "gawk", "newuidmap": "uidmap", "script": "bsdutils",
	"ip": "iproute2", "criu": "criu", "gcc": "gcc", "udevadm": "udev", "taskset": "util-linux",
	"losetup": "mount", "findmnt": "util-linux", "tar": "tar", "ps": "procps", "git": "git",
}

// requirePrograms fails rather than letting tests skip: a test that skips with
// both is a test that compared nothing.
func requirePrograms() error {
	if os.Geteuid() != 0 {
		return errors.New("the suite needs root")
	}
	var missing []string
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		return fmt.Errorf("missing packages: apt-get install %s", strings.Join(slices.Compact(missing), " "))
	}
	return nil
}
