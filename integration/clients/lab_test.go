//go:build kernel

package clients

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// patience is for one program: the slowest take seconds where they have a
// processor to themselves.
const patience = 4 * time.Minute

const (
	address    = "127.0.0.1" // of all servers
	repository = "/srv/hello.git"
	scripts    = "/clients" // in the image
)

// lab is what all tests have in common: the programs, the servers, a runtime.
type lab struct {
	*authority
	tree    string // below the root of every container
	world   *harness.World
	runtime *harness.Runtime
	audit   string // folder
}

// hostFile has a place for the audit's folder, the mode, and more of the profile.
// The ports and schemes of a rule that names none are those of the profile.
const hostFile = `version: 1
default_profile: agent
audit_dir: %s
egress: {nameservers: ["` + address + `:53"], reachable: [` + address + `]}
profiles:
  sage: {defaults: {resources: {require_hard_limits: false}}}
  agent:
    defaults:
      resources: {require_hard_limits: false}
      network:
        %s
        allowed_hosts: [
          git.test, pip.test, npm.test, apt.test, go.test, cargo.test, maven.test, www.test,
          "tcp://db.test:5432", "tcp://ssh.test:22"]
    %s
`

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{authority: newAuthority(t), tree: harness.Workload(t), audit: harness.TempDir(t)}
	l.world = harness.NewWorld(t, harness.WorldOptions{IP: address, Resolver: address + ":53"})
	l.runtime = l.runtimeWith(t, "mode: allowlist", "")
	l.prepare(t)
	serveWeb(t, l.authority, l.tree)
	l.serveOthers(t)
	return l
}

// runtimeWith is one under a host's file in which the profile agent has this mode,
// and what more says.
func (l *lab) runtimeWith(t *testing.T, mode, more string) *harness.Runtime {
	t.Helper()
	r := harness.NewRuntimeWith(t, fmt.Sprintf(hostFile, l.audit, mode, more))
	r.Patience = patience
	return r
}

// prepare makes the image as its author would: with the CA, and what the
// programs need beside themselves.
func (l *lab) prepare(t *testing.T) {
	t.Helper()
	into := filepath.Join(l.tree, scripts)
	if _, err := harness.Output(exec.Command("cp", "-r", "testdata", into)); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(into, "fetch"), program, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(into, "ca.pem"), l.pem, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := harness.NewRuntime(t)
	r.Patience = patience
	bundle := harness.NewBundle(t, func(s *specs.Spec) { asServer(s, l.tree, "prepare.sh") })
	r.Must(t, "run", "--bundle", bundle.Dir, harness.NewID())
}

// serveOthers starts the servers that are programs themselves, in a container
// that is in the test's own network namespace.
func (l *lab) serveOthers(t *testing.T) {
	t.Helper()
	r, root := harness.NewRuntime(t), harness.Overlay(t, l.tree)
	bundle := harness.NewBundle(t, func(s *specs.Spec) { asServer(s, root, "servers.sh") })
	id := harness.NewID()
	run := r.Start(t, "run", "--detach", "--bundle", bundle.Dir, id)
	if res := run.Wait(t); res.Code != 0 {
		t.Fatal(res)
	}
	for _, port := range []string{"5432", "22"} {
		await(t, net.JoinHostPort(address, port), func() string { return run.Stdout(t) + run.Stderr(t) })
	}
}

// trustOnHost has the host believe the CA, in this test's mount namespace alone.
func (l *lab) trustOnHost(t *testing.T) {
	t.Helper()
	const roots = "/etc/ssl/certs/ca-certificates.crt"
	file := filepath.Join(harness.TempDir(t), "roots")
	if err := os.WriteFile(file, l.pem, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, roots, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(os.NewSyscallError("mount", err))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(roots, 0); err != nil {
			t.Error(os.NewSyscallError("unmount", err))
		}
	})
}

// asServer is a program of the image with what Docker gives root.
func asServer(s *specs.Spec, root, script string) {
	s.Root = &specs.Root{Path: root}
	s.Process.Args = []string{"bash", "-eu", filepath.Join(scripts, script)}
	s.Process.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	s.Process.NoNewPrivileges = false
	s.Process.Rlimits = nil
	all := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
	var namespaces []specs.LinuxNamespace
	for _, ns := range s.Linux.Namespaces {
		if ns.Type != specs.NetworkNamespace {
			namespaces = append(namespaces, ns)
		}
	}
	s.Linux.Namespaces = namespaces
}

func await(t *testing.T, at string, output func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited a minute for the server at %s: %v\n%s", at, err, output())
		}
	}
}

// environment is that of an image. What finds the proxy is none of it.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "GOMAXPROCS=2",
	// A denied host is denied the second time too; some wait between their tries.
	"PIP_RETRIES=1", "npm_config_fetch_retries=0", "CARGO_NET_RETRY=0",
}

// more is what a Java or Node program asks for.
var more = map[string]string{
	"sage.sandbox.resources.cpu_percent":   "200",
	"sage.sandbox.resources.memory_mb":     "2048",
	"sage.sandbox.resources.max_processes": "512",
}

// visit is what became of a container.
type visit struct {
	harness.Result
	lines []auditLine
}

// auditLine is what is looked at of one line of the audit.
type auditLine struct {
	Action, Kind, Event, Host, Scheme, Code, Upstream string
	Port                                              int
	Unchecked                                         bool
}

// run has a container of the profile agent do a line of bash.
func (l *lab) run(t *testing.T, r *harness.Runtime, line string) visit {
	t.Helper()
	bundle := harness.NewBundle(t, func(s *specs.Spec) {
		s.Root = &specs.Root{Path: harness.Overlay(t, l.tree)}
		s.Process.Args = []string{"bash", "-euc", line}
		s.Process.Cwd = "/tmp"
		s.Process.Env = environment
		s.Process.Rlimits = nil
		s.Mounts = append(s.Mounts, specs.Mount{
			Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", "size=256m"},
		})
		s.Annotations = more
	})
	id := harness.NewID()
	v := visit{Result: r.Run(t, "run", "--bundle", bundle.Dir, id)}
	v.lines = readAudit(t, filepath.Join(l.audit, id+".egress.jsonl"))
	return v
}

func readAudit(t *testing.T, path string) (lines []auditLine) {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var line auditLine
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Errorf("audit: %v: %s", err, s.Text())
		}
		lines = append(lines, line)
	}
	return lines
}

// ways are the kinds of connections and questions with an action, for a host,
// each once.
func (v visit) ways(action, host string) string {
	var ways []string
	for _, line := range v.lines {
		if line.Action == action && line.Host == host && !slices.Contains(ways, line.Kind) {
			ways = append(ways, line.Kind)
		}
	}
	return strings.Join(ways, " ")
}
