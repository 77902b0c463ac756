//go:build kernel

package kernel

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// prelude is what every script begins with. Output goes to files: a detached
// container keeps it open.
const prelude = `
n=0
show() { # MARK FILE: of a help text only the flags, its prose is each one's own
	[ -s "$2" ] || return 0
	if grep -q '^NAME:' "$2"; then
		grep -m 1 Incorrect "$2"
		sed '1,/OPTIONS:/d' "$2" | grep '^   -' | sed 's/   */  /g' | sort
		return
	fi
	sed "s/^/$1 /" "$2"
	[ -z "$(tail -c 1 "$2" | tr -d '\0')" ] || printf '%s\n' "<no newline>"
}
told() { # STATUS
	echo "exit $1"
	show out $W/out.$n
	show err $W/err.$n
}
g() { # ARGS: one command of the runtime
	n=$((n + 1))
	printf '$ %s\n' "$*"
	$RT "$@" >$W/out.$n 2>$W/err.$n
	told $?
}
r() { # ARGS: the same with a state root of the session's own
	g --root $ROOT "$@"
}
k() { # ARGS: a command that is there for the next one's sake
	n=$((n + 1))
	$RT --root $ROOT "$@" >$W/out.$n 2>$W/err.$n || { c=$?; printf '$ %s\n' "$*"; told $c; }
}
bg() { # ARGS: in the background, its pid is $p; the shell ignores signals there
	n=$((n + 1)); m=$n
	env --default-signal=INT,QUIT $RT --root $ROOT "$@" >$W/out.$n 2>$W/err.$n </dev/null & p=$!
	echo "$p RUNTIME" >>$W/names
}
ended() { # and what came of it; the shell says of some signals, and by chance, which it was
	wait $p 2>/dev/null; n=$m told $?
}
conf() { # JQ: change the bundle
	jq -c "$1" $B/config.json >$B/new && mv $B/new $B/config.json
}
pid() { $RT --root $ROOT state ${1:-$ID} | jq .pid; }
await() { # COMMAND: wait until it succeeds
	for i in $(seq 200); do
		eval "$1" && return 0
		sleep 0.02
	done
	echo "never: $1"
}
is() { # STATUS: wait for it; a container that is gone has stopped
	[ -e $ROOT/$ID ] || [ "$1" = running ] || return 0
	await "$RT --root $ROOT state $ID 2>/dev/null | grep -q '\"status\": \"$1\"'"
}
says() { # WORDS: what was started last prints them
	await "grep -qs '$1' $W/out.$n"
}
`

// transcript has one session in an empty folder.
func (c *twin) transcript(t *testing.T, bin, dir, id string) string {
	t.Helper()
	work := filepath.Join(dir, "w")
	bundle, root := filepath.Join(work, "b"), filepath.Join(work, "root")
	check(t, os.MkdirAll(bundle, 0o755))
	check(t, os.Mkdir(root, 0o700))
	spec := harness.DefaultSpec(t)
	spec.Process.Args = []string{"sleep", "1000"}
	if c.edit != nil {
		c.edit(spec)
	}
	check(t, os.WriteFile(filepath.Join(bundle, "config.json"), []byte(asJSON(t, spec)), 0o644))
	heard := func() string { return "" }
	if c.sockets {
		heard = listenAt(t, work)
	}
	text := session(t, c.script, work, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/root", "LC_ALL=C",
		"RT=" + commandOf(t, bin), "W=" + work, "B=" + bundle, "ROOT=" + root, "ID=" + id,
		"BUSYBOX=" + harness.Busybox(t), "LOOKS=" + looks, "TRAPPING=" + trapping,
		"PROBES=" + filepath.Dir(harness.HostProbe(t, "notify")),
	})
	removeContainers(t, bin, root)
	text += heard()
	named := names(work)
	check(t, os.RemoveAll(work))
	return normalise(text, bin, work, id, named)
}

// commandOf is what a script says for the runtime, unquoted. sage is given the
// configuration under which it has to do as runc does.
func commandOf(t *testing.T, bin string) string {
	t.Helper()
	if config := harness.ConfigFor(t, bin, harness.Compat); config != "" {
		return bin + " --config " + config
	}
	return bin
}

// session returns all that the script printed. It is a process group, so that
// no command outlives a session that hangs.
func session(t *testing.T, script, work string, env []string) string {
	t.Helper()
	path := filepath.Join(work, "transcript")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	check(t, err)
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", prelude+script)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, work, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, harness.StartCommand(cmd))
	late := time.AfterFunc(harness.Timeout, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer late.Stop()
	err = harness.WaitCommand(cmd)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() < 0 {
		t.Errorf("the session was ended, it took longer than %v", harness.Timeout)
	}
	return readText(t, path)
}

func removeContainers(t *testing.T, bin, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	check(t, err)
	r := &harness.Runtime{Bin: bin, Root: root, Config: harness.ConfigFor(t, bin, harness.Compat)}
	for _, e := range entries {
		if res := r.Run(t, "delete", "--force", e.Name()); res.Code != 0 {
			t.Errorf("%s: delete --force %s: %s", bin, e.Name(), res)
		}
	}
}

// names reads the pids that the script has given names to.
func names(work string) map[string]string {
	data, _ := os.ReadFile(filepath.Join(work, "names")) // Not there when it named none.
	named := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if pid, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			named[pid] = name
		}
	}
	return named
}

// normalising is what differs from one run of the same binary to the next, and
// what differs by intention everywhere.
var normalising = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`("pid\\?": ?)[1-9]\d*`), "${1}PID"},
	{regexp.MustCompile(`/proc/\d+/`), "/proc/PID/"},
	{regexp.MustCompile(`(adding pid|to write) \d+|nsexec\[\d+\]`), "${1} PID"},
	// Which controller comes first is chance.
	{regexp.MustCompile(`openat2 /sys/fs/cgroup/\S+?(/ID\S*)`), "openat2 CGROUP${1}"},
	{regexp.MustCompile(`(current|peak) usage: \d+|/fd/\d\d+`), "${1} N"},
	{regexp.MustCompile(`(pipe|socket|user|mnt|net|pid|ipc|uts|cgroup|time):\[\d+\]`), "${1}:[INODE]"},
	{regexp.MustCompile(`sagetest\d+-\d+`), "SCRATCH"},
	// The program's name is meant to differ, and its version.
	{regexp.MustCompile(`/run/(sage|runc)\b`), "/run/PROGRAM"},
	{regexp.MustCompile(`(^|[^.\w/-])(sage-runtime|runc)\b`), "${1}PROGRAM"},
	{regexp.MustCompile(`PROGRAM version \S+`), "PROGRAM version VERSION"},
	{regexp.MustCompile(`out commit: \S+\n`), ""},
	{regexp.MustCompile(`system.slice:\w+:434234`), "system.slice:PROGRAM:434234"},
	// A failure that has a code carries it at its end and as a field of the log.
	{regexp.MustCompile(`open bundle: (.*) \[sandbox\.\w+\]`), "${1}"},
	{regexp.MustCompile(` \[sandbox\.\w+\]`), ""},
	{regexp.MustCompile(` code=sandbox\.\w+|"code":"sandbox\.\w+",`), ""},
	// The file that becomes the pid file has a name of its own for each writer.
	{regexp.MustCompile(`(/\.\w+)\.\d+([: ])`), "${1}${2}"},
}

var mainPID = regexp.MustCompile(`MAINPID=(\d+)`)

func normalise(text, bin, work, id string, named map[string]string) string {
	text = mainPID.ReplaceAllStringFunc(text, func(s string) string {
		return "MAINPID=" + named[strings.TrimPrefix(s, "MAINPID=")]
	})
	text = strings.NewReplacer(bin, "PROGRAM", work, "WORK", id, "ID").Replace(text)
	for _, n := range normalising {
		text = n.pattern.ReplaceAllString(text, n.with)
	}
	return text
}
