//go:build engines

package engines

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// ring is what all tests of this package share. Its parts are made when a
// test first asks, so that one test alone does not start every daemon.
type ring struct {
	dir, name  string
	clean      view // the capsule before any daemon
	install    func() error
	containerd func() (*daemon, error)
	dockerd    func() (*daemon, error)
	running    []*daemon
}

var theRing = newRing(os.Getenv(dirVar), os.Getenv(nameVar))

func newRing(dir, name string) *ring {
	r := &ring{dir: dir, name: name}
	r.install = sync.OnceValue(r.installBinaries)
	r.containerd = sync.OnceValues(r.startContainerd)
	r.dockerd = sync.OnceValues(r.startDockerd)
	return r
}

func (r *ring) path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

// runtimeBinary and shimBinary are the programs under test.
func (r *ring) runtimeBinary() string { return runtimeBinary() }
func (r *ring) shimBinary() string    { return r.path("bin", "containerd-shim-sage-v2") }

// searchPath is PATH of every daemon and client of the ring. The ring's own
// folder comes first: what is found there is what the ring is about.
func (r *ring) searchPath() string {
	peers := filepath.Join(cacheDir(), "peers", "bin")
	return r.path("bin") + ":" + peers + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH")
}

// missing lists the programs that the ring cannot do without, each with where
// it comes from. Asked first, for a daemon that lacks one says so late and oddly.
func (r *ring) missing() []string {
	var found []string
	for _, need := range []struct{ from, programs string }{
		{"make peers", "containerd containerd-shim-runc-v2 ctr dockerd docker-proxy nerdctl crictl cni/bridge"},
		{"a Docker client", "docker"},
		{"Debian packages", "podman conmon iptables ps"},
	} {
		for name := range strings.FieldsSeq(need.programs) {
			if r.find(name) == name {
				found = append(found, name+" ("+need.from+")")
			}
		}
	}
	return found
}

func (r *ring) cniDir() string { return filepath.Join(cacheDir(), "peers", "bin", "cni") }

// installBinaries copies the binaries under test to the ring's folder, under
// their real names. SAGE_BIN=.../runc then runs the same ring with runc, which
// is how a failure of the ring is told from a failure of sage.
func (r *ring) installBinaries() error {
	return errors.Join(
		os.MkdirAll(r.path("bin"), 0o755),
		// Podman insists on a file where DOCKER_CONFIG leads.
		os.MkdirAll(r.path("docker-config"), 0o755),
		os.WriteFile(r.path("docker-config", "config.json"), []byte("{}"), 0o600),
		copyProgram(fromEnv("SAGE_BIN", "sage-runtime"), r.runtimeBinary()),
		copyProgram(fromEnv("SAGE_SHIM", "containerd-shim-sage-v2"), r.shimBinary()),
		r.installEgress(),
		writeHostFiles(),
	)
}

// installEgress takes the program that lies beside the runtime under test; runc
// has none.
func (r *ring) installEgress() error {
	from := filepath.Join(filepath.Dir(fromEnv("SAGE_BIN", "sage-runtime")), "sage-egress")
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) && os.Getenv("SAGE_BIN") != "" {
		return nil
	}
	return copyProgram(from, r.path("bin", "sage-egress"))
}

// fromEnv is the path in the variable, or the program that make build makes.
func fromEnv(name, program string) string {
	if path := os.Getenv(name); path != "" {
		return path
	}
	return filepath.Join("..", "..", "bin", program)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("the ring needs the program (make build): %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// needContainerd starts containerd, or fails the test.
func needContainerd(t *testing.T) {
	t.Helper()
	if _, err := theRing.containerd(); err != nil {
		t.Fatal(err)
	}
}

// needDockerd starts dockerd and what it needs, or fails the test.
func needDockerd(t *testing.T) {
	t.Helper()
	if _, err := theRing.dockerd(); err != nil {
		t.Fatal(err)
	}
}

// stop ends the daemons. dockerd goes before containerd, which it needs for it.
func (r *ring) stop() {
	for _, name := range []string{"dockerd", "containerd"} {
		for _, d := range r.running {
			if filepath.Base(d.cmd.Path) == name {
				d.stop()
			}
		}
	}
	r.running = nil
}
