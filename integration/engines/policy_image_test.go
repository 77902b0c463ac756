//go:build engines

package engines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// victimImage is Busybox with the victim in it.
const victimImage = "sage.test/victim:1"

// victimTar makes the image's tree once, as a tar file.
var victimTar = sync.OnceValues(func() (string, error) {
	dir := theRing.path("victim")
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		return "", err
	}
	return filepath.Join(dir, "victim.tar"), unpack(rootfsTar(), filepath.Join(dir, "root"))
})

func unpack(archive, dir string) error {
	out, err := exec.Command("tar", "-xpf", archive, "-C", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// needVictim gives the archive, built.
func needVictim(t *testing.T) string {
	t.Helper()
	archive, err := victimTar()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(archive); err == nil {
		return archive
	}
	root := filepath.Join(filepath.Dir(archive), "root")
	expect.Build(t, root)
	if out, err := exec.Command("tar", "-cf", archive, "-C", root, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return archive
}

// dockerVictim brings it to Docker.
func dockerVictim(t *testing.T) {
	t.Helper()
	archive := needVictim(t)
	needDockerd(t)
	d := client{"docker", []string{"--host", "unix://" + theRing.dockerSocket()}}
	if d.try(t, "image", "inspect", victimImage).code != 0 {
		d.must(t, "import", archive, victimImage)
	}
}

// containerdVictim brings it to containerd, in both of the ring's namespaces.
func containerdVictim(t *testing.T) {
	t.Helper()
	needContainerd(t)
	tree, err := os.ReadFile(needVictim(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{theRing.name, "k8s.io"} {
		if err := theRing.importImage(namespace, victimImage, tree, []string{"sh"}); err != nil {
			t.Fatal(err)
		}
	}
}

// wantConfined compares a report with the table, but for what the container's
// own files decide. An engine's default profile denies by errors of its own,
// so only what comes through counts unless exact.
func wantConfined(t *testing.T, p expect.Profile, r result, exact bool) {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("the victim: exit %d: %s%s", r.code, r.out, r.errs)
	}
	outcomes, err := expect.Parse(r.out)
	if err != nil {
		t.Fatal(err)
	}
	trial := expect.Trial{Profile: p, Contexts: []string{"init"}, Instead: insteadOf(p)}
	problems := trial.Escapes(outcomes)
	if exact {
		_, problems = trial.Judge(outcomes)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	t.Logf("%d attempts came to what the table says", len(outcomes)-len(problems))
}

// insteadOf has the one row in which engines differ: they open the low ports to
// everybody in the container's own network namespace, by a sysctl.
func insteadOf(p expect.Profile) map[string]string {
	if p == expect.Sage {
		return nil
	}
	return map[string]string{"low port": "ok|EACCES"}
}

// firstLine shortens a message for a table.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if i := strings.Index(line, "failed: "); i >= 0 {
		line = line[i+len("failed: "):]
	}
	return line
}
