//go:build kernel

package policy

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// TestEngineSocketsRefused: a socket leads to whoever listens on it, and an
// engine's to the whole host, whatever it is called and wherever it lies.
//
// Proves: S-109, G-15, G-22.
func TestEngineSocketsRefused(t *testing.T) {
	failAll(t, []trick{
		{"socket", func(t *testing.T, s *specs.Spec) { bind(socketIn(t, "docker.sock"), "/var/run/docker.sock")(t, s) }, []string{"socket"}},
		{"socket of another name", func(t *testing.T, s *specs.Spec) { bind(socketIn(t, "data.txt"), "/data.txt")(t, s) }, []string{"socket"}},
		{"socket, read-only", func(t *testing.T, s *specs.Spec) { bind(socketIn(t, "x"), "/x", "ro")(t, s) }, []string{"socket"}},
		{"folder with a socket", func(t *testing.T, s *specs.Spec) { bind(filepath.Dir(socketIn(t, "x")), "/x")(t, s) }, []string{"socket"}},
		{"folder with one deep in it", func(t *testing.T, s *specs.Spec) {
			bind(strings.TrimSuffix(socketIn(t, "a/b/c/.hidden/x"), "/a/b/c/.hidden/x"), "/x", "ro")(t, s)
		}, []string{"socket"}},
		{"link to a socket", func(t *testing.T, s *specs.Spec) { bind(linkTo(t, socketIn(t, "x")), "/x")(t, s) }, []string{"socket"}},
		{"link to its folder", func(t *testing.T, s *specs.Spec) { bind(linkTo(t, filepath.Dir(socketIn(t, "x"))), "/x")(t, s) }, []string{"socket"}},
		{"hard link", func(t *testing.T, s *specs.Spec) {
			path := socketIn(t, "x")
			check(t, os.Link(path, path+".txt"))
			check(t, os.Remove(path))
			bind(path+".txt", "/x")(t, s)
		}, []string{"socket"}},
		{"fifo", func(t *testing.T, s *specs.Spec) {
			path := filepath.Join(harness.TempDir(t), "fifo")
			check(t, unix.Mkfifo(path, 0o666))
			bind(path, "/x")(t, s)
		}, []string{"fifo"}},
		{"device", func(t *testing.T, s *specs.Spec) {
			path := filepath.Join(harness.TempDir(t), "device")
			check(t, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
			bind(path, "/x")(t, s)
		}, []string{"device"}},
		{"device of the host", bind("/dev/kmsg", "/dev/kmsg"), []string{"device"}},
		{"run of the host", bind("/run", "/x", "rbind"), []string{"mounts["}},
		{"var/run of the host", bind("/var/run", "/x", "rbind"), []string{"mounts["}},
		{"nothing there", bind("/no/such/path", "/x"), []string{"does not exist"}},
		{"a folder that is not there yet", bind("/no/such/path/", "/x", "rbind"), []string{"does not exist"}},
	}, harness.SoftSage, harness.SoftAgent, harness.SoftAgent+"write_paths: [/tmp]\n")
}

// socketIn makes a socket that somebody listens on, in a new folder.
func socketIn(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(harness.TempDir(t), name)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return path
}

// TestEngineSocketMadeLater: a socket appears in a folder that is mounted
// already. It is there to be seen, and nobody can connect.
//
// Proves: S-109.
func TestEngineSocketMadeLater(t *testing.T) {
	for name, host := range map[string]string{
		"sage": harness.SoftSage, "agent": harness.SoftAgent, "agent that may write": harness.SoftAgent + "write_paths: [/tmp]\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := harness.NewRuntimeWith(t, host)
			dir := harness.TempDir(t)
			b := harness.NewBundle(t, func(s *specs.Spec) {
				s.Process.Args = []string{"sleep", "1000"}
				bind(dir, "/shared")(t, s)
			})
			id := harness.NewID()
			r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "later"), Net: "unix"})
			check(t, err)
			defer l.Close()
			check(t, os.Chmod(filepath.Join(dir, "later"), 0o777))
			if res := r.Run(t, "exec", id, "sh", "-c", "test -S /shared/later && nc local:/shared/later </dev/null"); res.Code == 0 {
				t.Errorf("got %s, want no connection", res)
			}
			if res := r.Run(t, "exec", id, "test", "-S", "/shared/later"); res.Code != 0 {
				t.Errorf("got %s, want the socket to be seen, or this proves nothing", res)
			}
		})
	}
}

// posture is what the kernel shows of a container's init to the host.
func posture(t *testing.T, r *harness.Runtime, b *harness.Bundle) map[string]string {
	t.Helper()
	id := harness.NewID()
	r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
	pid := pidOf(t, r, id)
	got := statusOf(t, pid, "Seccomp", "Seccomp_filters", "NoNewPrivs", "CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb", "Uid", "Gid", "Groups")
	got["limits"] = readText(t, fmt.Sprintf("/proc/%d/limits", pid))
	got["mounts"] = mountFlags(t, pid)
	r.Must(t, "delete", "--force", id)
	return got
}

// mountFlags are the mounts of a process without what differs from run to run.
func mountFlags(t *testing.T, pid int) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(readText(t, fmt.Sprintf("/proc/%d/mountinfo", pid))) {
		f := strings.Fields(line)
		lines = append(lines, f[4]+" "+f[5])
	}
	return strings.Join(lines, "\n")
}

// loose is a policy of the most generous kind, for a place that no policy is
// read from.
const loose = "version: 1\ndefault_profile: compat\n"

// TestPolicyNotFromRootfs: not from the image, the bundle, the folder that the
// runtime is started in, a home, or the environment of anybody.
//
// Proves: S-037.
func TestPolicyNotFromRootfs(t *testing.T) {
	r := harness.NewRuntimeWith(t, harness.SoftSage)
	want := posture(t, r, harness.NewBundle(t, harness.Args("sleep", "1000")))
	root := harness.PrivateRoot(t)
	for _, name := range []string{"etc/sage/config.yaml", "config.yaml", "root/.config/sage/config.yaml", ".sage.yaml", "run/sage/config.yaml"} {
		writeText(t, filepath.Join(root, name), loose)
	}
	b := harness.NewBundle(t, func(s *specs.Spec) {
		s.Root.Path, s.Process.Args = root, []string{"sleep", "1000"}
		s.Process.Env = append(s.Process.Env, "SAGE_CONFIG=/config.yaml", "SAGE_PROFILE=compat", "SAGE_DEFAULT_PROFILE=compat")
		s.Hostname, s.Domainname = "compat", "compat"
	})
	for _, name := range []string{"config.yaml", "sage.yaml", ".sage/config.yaml", "etc/sage/config.yaml"} {
		writeText(t, filepath.Join(b.Dir, name), loose)
	}
	r.Env = append(r.Env, "SAGE_CONFIG="+filepath.Join(b.Dir, "config.yaml"), "SAGE_PROFILE=compat", "HOME="+b.Dir,
		"XDG_CONFIG_HOME="+b.Dir, "SAGE_DEFAULT_PROFILE=compat")
	if diff := cmp.Diff(want, posture(t, r, b)); diff != "" {
		t.Errorf("with policies all over the place (-without +with):\n%s", diff)
	}
}

// TestNoLoosening: whatever a bundle may say in annotations either tightens, or
// changes nothing, or is refused.
//
// Proves: G-26, G-27.
func TestNoLoosening(t *testing.T) {
	for key, values := range map[string][]string{
		"profile":                       {"compat", "agent", "service", "no-such", ""},
		"default_profile":               {"compat"},
		"config":                        {"/tmp/x"},
		"resources.memory_mb":           {"2048", "0", "-1", "1e9", "NaN", "true", "1024.5", "99999999999999999999"},
		"resources.cpu_percent":         {"200", "0", "inf"},
		"resources.max_processes":       {"65", "3", "unlimited"},
		"network.mode":                  {"unrestricted", "proxy", "allowlist", "host"},
		"network.listen":                {"any", "loopback"},
		"network.unix_sockets":          {"true", "yes", "1"},
		"network.host_network":          {"true"},
		"network.allowed_hosts":         {"*", "example.org"},
		"network.deny_private_networks": {"false"},
		"network.max_response_bytes":    {"99999999999"},
		"process.capabilities":          {`["SYS_ADMIN"]`, `["CHOWN"]`, "ALL"},
		"process.allow_ptrace":          {"true"},
		"process.allow_no_randomize":    {"true"},
		"process.max_open_files":        {"1048576"},
		"process.execution_uid":         {"0"},
		"process.force_env":             {`{"LD_PRELOAD":"/x.so"}`, `["LD_PRELOAD=/x"]`},
		"files.readonly_root":           {"false"},
		"files.readonly_proc":           {"false"},
		"files.write_paths":             {`["/"]`},
		"files.read_paths":              {`["/etc"]`},
		"files.hooks":                   {`["/bin/sh"]`},
		"files.devices":                 {`[{"path":"/dev/kvm","type":"c","major":10,"minor":232}]`},
		"files.shared_namespaces":       {`["pid"]`},
		"files.refuse_privileged":       {"false"},
		"resources.require_hard_limits": {"false", "no"},
		"Profile":                       {"compat"},
		"profile ":                      {"compat"},
		"resources..memory_mb":          {"1"},
		"seccomp":                       {"unconfined"},
		"timeout_seconds":               {"-1"},
	} {
		for _, value := range values {
			t.Run(key+"="+value, func(t *testing.T) { loosens(t, "sage.sandbox."+key, value) })
		}
	}
}

func loosens(t *testing.T, key, value string) {
	t.Helper()
	// Only the profile sage may be chosen, so that another one would be looser.
	r := harness.NewRuntimeWith(t, harness.SoftSage+"allowed_profiles: [sage]\n")
	b := harness.NewBundle(t, harness.Args("sleep", "1000"))
	want := posture(t, r, b)
	b.Spec.Annotations = map[string]string{key: value}
	b.Write(t)
	id := harness.NewID()
	res := r.Run(t, "run", "--detach", "--bundle", b.Dir, id)
	if res.Code != 0 {
		t.Log(strings.TrimSpace(said(res)))
		if !strings.Contains(res.Stderr, "[sandbox.") {
			t.Errorf("got %s, want a code", res)
		}
		return
	}
	r.Must(t, "delete", "--force", id)
	if diff := cmp.Diff(want, posture(t, r, b)); diff != "" {
		t.Errorf("with the annotation (-without +with):\n%s", diff)
	}
}

// TestEnforcementCannotBeRemoved: neither by who is inside nor by an exec or an
// update that asks for more than the container has.
//
// Proves: S-020, S-105, E-028.
func TestEnforcementCannotBeRemoved(t *testing.T) {
	for _, p := range profiles {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			id := harness.NewID()
			b := harness.NewBundle(t, func(s *specs.Spec) {
				bare(s)
				s.Process.Args = []string{"sleep", "1000"}
			})
			r.Must(t, "run", "--detach", "--bundle", b.Dir, id)
			pid := pidOf(t, r, id)
			wantLayersAtLeast(t, "init", pid)
			generousExec(t, r, id)
			refusedExec(t, r, id)
			generousUpdate(t, r, id)
			ran(t, r.Run(t, "attest", id))
		})
	}
}

// wantLayersAtLeast is for a bundle without a profile of its own.
func wantLayersAtLeast(t *testing.T, when string, pid int) {
	t.Helper()
	want := map[string]string{"Seccomp": "2", "NoNewPrivs": "1"}
	if diff := cmp.Diff(want, statusOf(t, pid, "Seccomp", "NoNewPrivs")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// generousExec asks for everything that an exec can ask for.
func generousExec(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	ask := *harness.DefaultSpec(t).Process
	ask.Args = []string{"sh", "-c", "grep -E '^(Seccomp:|NoNewPrivs:|Cap(Eff|Prm|Bnd|Inh|Amb):)' /proc/self/status; ulimit -Hn; ulimit -Hc; cat /proc/self/oom_score_adj"}
	ask.OOMScoreAdj = new(-500)
	ask.Capabilities = &specs.LinuxCapabilities{
		Bounding: allCapabilities, Effective: allCapabilities, Permitted: allCapabilities, Inheritable: allCapabilities, Ambient: allCapabilities,
	}
	ask.NoNewPrivileges = false
	ask.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_CORE", Hard: 1 << 30, Soft: 1 << 30}, {Type: "RLIMIT_NOFILE", Hard: 1 << 20, Soft: 1 << 20}}
	inherit := r.Must(t, "exec", id, "sh", "-c", ask.Args[2])
	for name, res := range map[string]harness.Result{
		"by its file": r.Run(t, "exec", "--process", processFile(t, ask), id),
		"by --cap":    r.Run(t, "exec", "--cap", "CAP_SYS_ADMIN", "--cap", "CAP_NET_RAW", id, "sh", "-c", ask.Args[2]),
		"as root":     r.Run(t, "exec", "--user", "0:0", id, "sh", "-c", ask.Args[2]),
	} {
		if res.Code != 0 {
			t.Logf("%s: %s", name, strings.TrimSpace(said(res)))
			continue
		}
		if diff := cmp.Diff(inherit.Stdout, res.Stdout); diff != "" {
			t.Errorf("an exec %s (-of the container +got):\n%s", name, diff)
		}
	}
	for _, flags := range [][]string{{"--apparmor", "unconfined"}, {"--process-label", "system_u:system_r:unconfined_t:s0"}, {"--cgroup", "/"}, {"--cgroup", "../.."}} {
		res := r.Run(t, append(append([]string{"exec"}, flags...), id, "sh", "-c", ask.Args[2])...)
		if res.Code == 0 && res.Stdout != inherit.Stdout {
			t.Errorf("an exec with %v: got %s, want what the container has", flags, res)
		}
		t.Logf("%v: exit status %d: %s", flags, res.Code, strings.TrimSpace(said(res)))
	}
}

// refusedExec asks for what a bundle would be refused, too.
func refusedExec(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	for _, args := range [][]string{
		{"--user", "1001:1001", "--additional-gids", "0", id, "true"},
		{"--cwd", "/proc/1/root", id, "true"},
	} {
		res := r.Run(t, append([]string{"exec"}, args...)...)
		if res.Code == 0 || !strings.Contains(res.Stderr, "["+denied+"]") {
			t.Errorf("exec %v: got %s, want a refusal", args, res)
		}
	}
}

// generousUpdate asks for more of everything; each is refused.
func generousUpdate(t *testing.T, r *harness.Runtime, id string) {
	t.Helper()
	huge, all := int64(1<<40), int64(-1)
	most := specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &huge}, Pids: &specs.LinuxPids{Limit: &all}}
	data, err := json.Marshal(most)
	check(t, err)
	name := filepath.Join(harness.TempDir(t), "resources.json")
	check(t, os.WriteFile(name, data, 0o600))
	for _, flags := range [][]string{
		{"--memory", "1099511627776"},
		{"--memory", "-1"},
		{"--memory-swap", "-1"},
		{"--pids-limit", "-1"},
		{"--pids-limit", "100000"},
		{"--cpu-quota", "-1"},
		{"--cpu-quota", "10000000"},
		{"--resources", name},
		{"--cpu-period", "1000"},
	} {
		res := r.Run(t, append(append([]string{"update"}, flags...), id)...)
		if res.Code == 0 || !strings.Contains(res.Stderr, "[sandbox.") {
			t.Errorf("update %v: got %s, want a refusal", flags, res)
		}
	}
}
