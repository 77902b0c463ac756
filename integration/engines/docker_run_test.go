//go:build engines

package engines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exitCases are the same for every engine whose client passes codes on.
var exitCases = []struct {
	name    string
	args    []string
	code    int
	phrases []string
}{
	{"zero", []string{"true"}, 0, nil},
	{"three", []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, 3, []string{"out", "err"}},
	{"child killed", []string{"sh", "-c", "sh -c 'kill -9 $$'; exit $?"}, 137, nil},
	{
		"missing program",
		[]string{"nosuch"},
		127,
		[]string{"OCI runtime create failed", `exec: "nosuch": executable file not found in $PATH`},
	},
	{
		"missing path",
		[]string{"/no/such"},
		127,
		[]string{`exec: "/no/such": stat /no/such: no such file or directory`},
	},
	{
		"not executable",
		[]string{"/etc/passwd"},
		126,
		[]string{`exec: "/etc/passwd": permission denied`},
	},
	{"directory", []string{"/etc"}, 126, []string{`exec: "/etc": is a directory`}},
}

// Docker's client turns the runtime's message into 126 or 127 by its words, so
// the words count as much as the code.
func dockerExitCodes(t *testing.T, d docker) {
	for _, c := range exitCases {
		t.Run(c.name, func(t *testing.T) {
			d.run(t, append([]string{busybox}, c.args...)...).want(t, c.code, c.phrases...)
		})
	}
}

const showStatus = "grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t\\n' ' '"

// optionCases each turn one option into something the container can see. They
// cover what Docker puts into config.json beyond the plain container.
var optionCases = []struct {
	name   string
	flags  []string
	script string
	want   string
}{
	{"defaults", nil, showStatus, "CapEff: 00000000a80425fb NoNewPrivs: 0 Seccomp: 2"},
	{
		"no capabilities",
		[]string{"--cap-drop=ALL", "--security-opt=no-new-privileges", "--security-opt=seccomp=unconfined"},
		showStatus,
		"CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 0",
	},
	{"privileged", []string{"--privileged"}, "mount -t tmpfs none /tmp && test -e /dev/kmsg && echo ok", "ok"},
	{"host name", []string{"--hostname=some-host"}, "hostname", "some-host"},
	{"user", []string{"--user=1000:1001", "--group-add=1002"}, "id -u; id -g; id -G", "1000\n1001\n1001 1002"},
	{"work folder", []string{"--workdir=/made/here"}, "pwd", "/made/here"},
	{"environment", []string{"--env=A=b c"}, "echo $A", "b c"},
	{"read only", []string{"--read-only"}, "touch /x 2>&1; echo $?", "touch: /x: Read-only file system\n1"},
	{"tmpfs", []string{"--tmpfs=/t:size=1m"}, "df -k /t | tail -1 | awk '{print $1, $2}'", "tmpfs 1024"},
	{"shm size", []string{"--shm-size=2m"}, "df -k /dev/shm | tail -1 | awk '{print $2}'", "2048"},
	{"files limit", []string{"--ulimit=nofile=100:200"}, "ulimit -Sn; ulimit -Hn", "100\n200"},
	{"sysctl", []string{"--sysctl=net.ipv4.ip_unprivileged_port_start=7"}, "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", "7"},
	{"device", []string{"--device=/dev/null:/dev/extra"}, "test -c /dev/extra && echo x >/dev/extra && echo ok", "ok"},
	{"oom score", []string{"--oom-score-adj=321"}, "cat /proc/self/oom_score_adj", "321"},
	{"masked", nil, "wc -c </proc/keys; (echo 1 >/proc/sys/kernel/pid_max) 2>&1 | grep -o 'Read-only.*'", "0\nRead-only file system"},
	{"init is pid 1", nil, "echo $$; ls /proc >/seen; grep -c '^[0-9]' /seen", "1\n2"},
	{"own cgroup", []string{"--cgroupns=private"}, "grep -c ':/$' /proc/self/cgroup | grep -qv '^0$' && echo ok", "ok"},
	{"processor share", []string{"--cpus=0.5"}, "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d' ' -f1 /sys/fs/cgroup/cpu.max", "50000"},
	{"processor set", []string{"--cpuset-cpus=0"}, "grep Cpus_allowed_list /proc/self/status | cut -f2", "0"},
}

func dockerOptions(t *testing.T, d docker) {
	for _, c := range optionCases {
		t.Run(c.name, func(t *testing.T) {
			r := d.run(t, append(c.flags, busybox, "sh", "-c", c.script)...)
			r.want(t, 0)
			if diff := cmp.Diff(strings.TrimSpace(r.out), c.want); diff != "" {
				t.Errorf("got -, want +:\n%s%s", diff, r.errs)
			}
		})
	}
	t.Run("bind mounts", func(t *testing.T) { dockerBinds(t, d) })
}

// The same folder twice, so that one mount's flags could be taken for the
// other's.
func dockerBinds(t *testing.T, d docker) {
	dir := t.TempDir()
	r := d.run(t, "--volume", dir+":/rw", "--volume", dir+":/ro:ro", busybox,
		"sh", "-c", "echo text >/rw/file; cat /ro/file; echo no >/ro/file")
	r.want(t, 1, "text", "Read-only file system")
}

// A megabyte each way shows both copying and the end of file.
func dockerStdin(t *testing.T, d docker) {
	text := strings.Repeat("0123456789abcde\n", 1<<16)
	r := d.feed(t, text, d.runArgs("--interactive", busybox, "cat")...)
	if r.code != 0 || r.out != text {
		t.Errorf("got exit %d and %d bytes, want 0 and the same %d bytes; %s", r.code, len(r.out), len(text), r.errs)
	}
	t.Run("reader that leaves early", func(t *testing.T) {
		d.feed(t, text, d.runArgs("--interactive", busybox, "head", "-n1")...).want(t, 0, "0123456789abcde")
	})
}

// The client, the daemon, the shim and the runtime each hold an end of a
// terminal, and each can forget to pass on a change.
func dockerTerminal(t *testing.T, d docker) {
	s := d.terminal(t, d.runArgs("--interactive", "--tty", busybox, "sh")...)
	useTerminal(s)
	s.wantEnd(7)
}

// useTerminal is what a user does in a shell on a terminal, whatever engine
// gave it: look at the size, change it, interrupt, and leave with 7.
func useTerminal(s *session) {
	s.t.Helper()
	s.ask("test -t 0 && echo tty-$((40+2)) $(stty size)", "tty-42 24 80")
	s.askSize(111, 33)
	s.askSize(90, 20)
	s.send("echo sleeping-$((1+1)); sleep 1000")
	s.expect("sleeping-2")
	// Again and again: the first may come before sleep is in the foreground.
	s.ask("\x03\necho back-$((2+3))", "back-5")
	s.send("exit 7")
}

// Fifty starts at once find what two starts in a row do not: names and paths
// that are not unique, locks, and clean-up that another container disturbs.
func dockerFifty(t *testing.T, d docker) {
	name := func(i int) string { return fmt.Sprintf("%s-%d", d.runtime, i) }
	atOnce(50, func(i int) error {
		r, err := finish(d.command("run", "--detach", "--network=none", "--runtime", d.runtime,
			"--name", name(i), "--label", "fifty="+d.runtime, busybox, "sleep", "1000"))
		return r.failed(err)
	}).want(t, "start")
	mine := []string{"ps", "--all", "--quiet", "--no-trunc", "--filter", "label=fifty=" + d.runtime}
	running := strings.Fields(d.must(t, append(mine, "--filter", "status=running")...))
	if len(running) != 50 {
		t.Errorf("running containers: got %d, want 50", len(running))
	}
	atOnce(50, func(i int) error {
		r, err := finish(d.command("rm", "--force", name(i)))
		return r.failed(err)
	}).want(t, "remove")
	if left := d.must(t, mine...); left != "" {
		t.Errorf("containers left: got %q, want none", left)
	}
	wantNothingOf(t, running)
}
