package runtime_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// patchTree is a checkout that holds nothing but the patch folder.
func patchTree(t *testing.T) (top string) {
	t.Helper()
	top = t.TempDir()
	dir := filepath.Join(top, "internal", "runtime", "patch")
	if err := os.CopyFS(dir, os.DirFS("patch")); err != nil {
		t.Fatal(err)
	}
	return top
}

func applyIn(t *testing.T, top string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(top, "internal", "runtime", "patch", "apply.sh"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func rewrite(t *testing.T, path, before, after string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(before)) {
		t.Fatalf("%s does not hold %q", path, before)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(before), []byte(after), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPatch applies the carried patch to the pinned version, and spoils each
// thing that must not go unnoticed.
func TestPatch(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string // part of the output, "" for success
	}{
		"as it is": {spoil: func(*testing.T, string) {}},
		"other hash": {
			spoil: func(t *testing.T, dir string) { rewrite(t, filepath.Join(dir, "version"), "h1:", "h1:x") },
			want:  "has hash h1:",
		},
		"patch that does not fit": {
			spoil: func(t *testing.T, dir string) {
				hunk := "--- a/libcontainer/error.go\n+++ b/libcontainer/error.go\n@@ -1,2 +1,2 @@\n-package other\n+package another\n import \"errors\"\n"
				f, err := os.OpenFile(filepath.Join(dir, "libcontainer.patch"), os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteString(hunk); err != nil {
					t.Fatal(err)
				}
			},
			want: "FAILED",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			top := patchTree(t)
			tt.spoil(t, filepath.Join(top, "internal", "runtime", "patch"))
			out, err := applyIn(t, top)
			_, statErr := os.Stat(filepath.Join(top, ".build", "libcontainer"))
			if tt.want == "" {
				if err != nil || statErr != nil {
					t.Fatalf("got %v, %v: %s", err, statErr, out)
				}
				return
			}
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("got %v and %q, want a failure with %q", err, out, tt.want)
			}
			if statErr == nil {
				t.Error("a folder to build against was left")
			}
		})
	}
}

// TestPatchAgain: make runs the script on every build, so a second run must do
// nothing, and a changed patch must not pass for the old one.
func TestPatchAgain(t *testing.T) {
	top := patchTree(t)
	built := filepath.Join(top, ".build", "libcontainer")
	mark := filepath.Join(built, "mark")
	apply := func(marked bool) {
		t.Helper()
		if out, err := applyIn(t, top); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := os.Stat(mark); (err == nil) != marked {
			t.Errorf("got %v for the mark in the folder, want it there: %v", err, marked)
		}
	}
	apply(false)
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	apply(true)
	rewrite(t, filepath.Join(top, "internal", "runtime", "patch", "libcontainer.patch"), "SagePatch = 2", "SagePatch = 7")
	apply(false)
	rewrite(t, filepath.Join(built, "libcontainer", "configs", "sage.go"), "SagePatch = 7", "")
}

// TestUnpatchedBuildFails builds against runc as published, and with the
// patched folder missing.
func TestUnpatchedBuildFails(t *testing.T) {
	const replace = "replace github.com/opencontainers/runc => ./.build/libcontainer"
	tests := map[string]struct{ replace, want string }{
		"published runc": {replace: "", want: "undefined: configs.SagePatch"},
		"no folder":      {replace: "replace github.com/opencontainers/runc => ./.build/none", want: ".build/none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			mod := filepath.Join(t.TempDir(), "go.mod")
			for from, to := range map[string]string{"../../go.mod": mod, "../../go.sum": strings.TrimSuffix(mod, "mod") + "sum"} {
				data, err := os.ReadFile(from)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(to, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			rewrite(t, mod, replace, tt.replace)
			cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-modfile="+mod, "-o", os.DevNull, ".")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("got %v and %q, want a failure with %q", err, out, tt.want)
			}
		})
	}
}
