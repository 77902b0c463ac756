package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// linkImages puts our trees where the suite looks before it would download.
// They are plain tar under a name that ends in .xz: tar goes by the content,
// and hundreds of extractions get faster.
func (s *suite) linkImages(ctx context.Context) error {
	debian := filepath.Join(cacheDir(), "rootfs", "debian.tar")
	if err := os.Symlink(debian, s.image("debian")); err != nil {
		return err
	}
	// Tests put symlinks at /proc and /sys, which the image that the suite was
	// written for does not have.
	data, err := os.ReadFile(filepath.Join(cacheDir(), "rootfs", "busybox.tar"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.image("busybox"), data, 0o644); err != nil {
		return err
	}
	return command(ctx, s.dir, nil, "tar", "--delete", "-f", s.image("busybox"), "./proc", "./sys")
}

func (s *suite) image(name string) string {
	return s.integration(filepath.Join("testdata", name+"-"+runtime.GOARCH+".tar.xz"))
}

const (
	specModule = "github.com/opencontainers/runtime-spec"
	specRepo   = "https://" + specModule + ".git"
)

// mirrorSpec makes a git repository of the runtime-spec module, since the spec
// validator test clones it from GitHub, which a test machine need not reach.
func (s *suite) mirrorSpec(ctx context.Context) error {
	source, version, err := moduleSource(ctx, s.dir, specModule)
	if err != nil {
		return err
	}
	if err := os.CopyFS(s.specMirror(), os.DirFS(source)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "--all"},
		{"-c", "user.name=runcsuite", "-c", "user.email=runcsuite@localhost", "commit", "--quiet", "--message", version},
		{"tag", version},
	} {
		if err := command(ctx, s.specMirror(), nil, "git", args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) specMirror() string { return filepath.Join(s.dir, "runtime-spec") }

// mirrorEnv makes git fetch from the mirror what is asked of GitHub.
func (s *suite) mirrorEnv() []string {
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + s.specMirror() + ".insteadOf", "GIT_CONFIG_VALUE_0=" + specRepo}
}

// command runs a tool whose output matters only if it fails.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
