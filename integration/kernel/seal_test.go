//go:build kernel

package kernel

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestSealedBinary: a container gets the runtime to execute its own binary
// inside, "#!/proc/self/exe", and then writes to what it caught. It must catch a
// sealed copy, whichever way the copy is made.
//
// libcontainer makes an overlay of the binary's folder; where that fails, a
// sealed memfd. A string for fsconfig(2) is at most 255 bytes long, so a binary
// deep enough in the tree has to take the second way.
//
// Proves: S-046.
func TestSealedBinary(t *testing.T) {
	deep := strings.Repeat("a-long-name-of-a-folder/", 12)
	t.Run("overlay", func(t *testing.T) {
		attackOn(t, "bin", func(link string) bool { return !strings.Contains(link, "memfd") })
	})
	t.Run("memfd", func(t *testing.T) {
		attackOn(t, deep, func(link string) bool { return strings.HasPrefix(link, "/memfd:") })
	})
}

// attackOn attacks a copy of the binary in folder. sealed says whether the link
// that the attacker saw is of the expected kind of copy.
func attackOn(t *testing.T, folder string, sealed func(link string) bool) {
	t.Helper()
	r := harness.NewRuntime(t)
	r.Bin = copyBinary(t, r.Bin, folder)
	before := digest(t, r.Bin)
	for _, attack := range catch(t, r, 3) {
		link, answer, _ := strings.Cut(attack, ": ")
		if !sealed(link) || answer == "WRITABLE" {
			t.Errorf("the container saw the binary %q and opened it for writing: %s", link, answer)
		}
		t.Logf("%s: opened for writing: %s", link, answer)
	}
	if digest(t, r.Bin) != before {
		t.Error("the runtime's binary changed")
	}
}

// catch runs the attacker in a container and n executions of the runtime's
// binary beside it, and returns what the attacker printed.
func catch(t *testing.T, r *harness.Runtime, n int) []string {
	t.Helper()
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		harness.WithProbes(t, s)
		s.Process.Args = []string{harness.Probe(t, "exe"), strconv.Itoa(n)}
		s.Root.Path = scriptRoot(t)
	})
	id := harness.NewID()
	attacker := r.Start(t, "run", "--bundle", bundle.Dir, id)
	harness.Eventually(t, "the attacker is ready", func() bool {
		return strings.Contains(attacker.Stdout(t), "ready")
	})
	for i := range n {
		// What the binary says to being started like this does not matter.
		r.Run(t, "exec", id, "/self")
		harness.Eventually(t, "the attacker caught it", func() bool {
			return strings.Count(attacker.Stdout(t), "\n") == i+2
		})
	}
	res := attacker.Wait(t)
	return strings.Split(strings.TrimSpace(res.Stdout), "\n")[1:]
}

// scriptRoot is a root with the attacker's bait: "exec ID /self" makes the kernel
// run whatever binary the runtime's process is at that moment.
func scriptRoot(t *testing.T) string {
	t.Helper()
	root := harness.PrivateRoot(t)
	script := []byte("#!/proc/self/exe --log=/block\n")
	check(t, os.WriteFile(filepath.Join(root, "self"), script, 0o755))
	check(t, unix.Mkfifo(filepath.Join(root, "block"), 0o666))
	return root
}

// A copy, so that an attack that works destroys nothing.
func copyBinary(t *testing.T, bin, folder string) string {
	t.Helper()
	dir := filepath.Join(harness.TempDir(t), folder)
	check(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, filepath.Base(bin))
	if _, err := harness.Output(exec.Command("cp", bin, path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// digest, since an attack may keep size and times.
func digest(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return sha256.Sum256(data)
}
