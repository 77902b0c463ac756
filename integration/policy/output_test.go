//go:build kernel

package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pty "github.com/containerd/console"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/harness"
)

// mostOutput is more than a pipe holds, and no multiple of any buffer's size.
const mostOutput = 100_003

const limited = "process.max_output_bytes=100003"

// flood writes x without an end; n of them at once with "few".
const flood = "tr '\\0' x </dev/zero"

func few(n string) string { return "head -c " + n + " /dev/zero | tr '\\0' x" }

// letters counts what came from the container: sage's own lines end up in the
// same file.
func letters(res harness.Result) (stdout, both int) {
	stdout = strings.Count(res.Stdout, "x")
	for line := range strings.Lines(res.Stderr) {
		head, _, _ := strings.Cut(line, "time=") // of sage, perhaps behind what has no newline
		both += strings.Count(head, "x")
	}
	return stdout, both + stdout
}

// TestOutputLimit: what is within the limit arrives, nothing else does, and the
// container ends with the reason, whoever in it writes and wherever.
//
// Proves: S-166, S-167, A-030.
func TestOutputLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		code   int
	}{
		"stdout":            {flood, 137},
		"stderr":            {flood + " >&2", 137},
		"both":              {flood + " & " + flood + " >&2", 137},
		"one byte too many": {few("100004") + "; sleep 1000", 137},
		"byte by byte":      {few("100000") + "; printf xxxxx; sleep 1000", 137},
		"other session":     {`setsid sh -c "setsid ` + flood + ` &" & sleep 1000`, 137},
		"ignores signals":   {"trap '' TERM PIPE HUP; " + flood + "; while :; do sleep 1; done", 137},
		"ends before":       {few("100004") + "; exit 3", 3},
	} {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			res := a.Run(t, "run", "--keep", "--bundle", shell(t, tt.script, "", limited), id)
			if _, got := letters(res); got != mostOutput {
				t.Errorf("got %d bytes, want %d", got, mostOutput)
			}
			if res.Code != tt.code && res.Code != 137 || res.Took > 6*time.Second {
				t.Errorf("got exit status %d after %v, want %d at once", res.Code, res.Took, tt.code)
			}
			if e := a.ended(t, id); e.Reason != "output_limit" || *e.Status != res.Code || e.Detail != "wrote more than 100003 bytes" {
				t.Errorf("audit: got %+v, want output_limit", e)
			}
			if _, e := a.stated(t, id); e.Reason != "output_limit" {
				t.Errorf("state: got %+v, want output_limit", e)
			}
			if !strings.Contains(res.Stderr, "output_limit") {
				t.Error("stderr does not name the reason")
			}
		})
	}
}

// TestOutputAtLimit: what may be written may be written, and only it counts.
func TestOutputAtLimit(t *testing.T) {
	a, id := newAudited(t), harness.NewID()
	script := few("100000") + "; printf xxx >&2; " + flood + " | head -c 1000000 >/dev/null; exit 4"
	res := a.Run(t, "run", "--bundle", shell(t, script, "", limited), id)
	if _, got := letters(res); got != mostOutput || res.Code != 4 {
		t.Errorf("got %d bytes and exit status %d, want %d and 4", got, res.Code, mostOutput)
	}
	if e := a.ended(t, id); e.Reason != "exited" {
		t.Errorf("audit: got %+v, want exited", e)
	}
}

// TestOutputTerminal: what is written to a terminal counts the same, and what is
// typed, which the terminal echoes.
//
// Proves: S-167.
func TestOutputTerminal(t *testing.T) {
	for name, script := range map[string]string{"written": flood, "echoed": "cat >/dev/null"} {
		t.Run(name, func(t *testing.T) {
			a, id := newAudited(t), harness.NewID()
			b := shell(t, script, "", limited)
			onPTY(t, b)
			master, path, err := pty.NewPty()
			check(t, err)
			defer master.Close()
			slave, err := os.OpenFile(path, os.O_RDWR, 0)
			check(t, err)
			defer slave.Close()
			run := a.StartWith(t, func(cmd *exec.Cmd) { cmd.Stdin = slave }, "run", "--bundle", b, id)
			// Not blocking: nobody takes what is typed once the program is gone.
			keyboard := int(master.Fd())
			check(t, unix.SetNonblock(keyboard, true))
			over, typed := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(typed)
				for name == "echoed" {
					_, _ = unix.Write(keyboard, []byte(strings.Repeat("x", 100)+"\n"))
					select {
					case <-over:
						return
					case <-time.After(10 * time.Microsecond):
					}
				}
			}()
			res := run.Wait(t)
			close(over)
			<-typed
			if len(res.Stdout) != mostOutput || res.Code != 137 || res.Took > 2*time.Second {
				t.Errorf("got %d bytes and exit status %d after %v, want %d and 137 at once", len(res.Stdout), res.Code, res.Took, mostOutput)
			}
			if e := a.ended(t, id); e.Reason != "output_limit" {
				t.Errorf("audit: got %+v, want output_limit", e)
			}
		})
	}
}

// onPTY lets the bundle's program have a terminal.
func onPTY(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	text := strings.Replace(readText(t, path), `"process":{`, `"process":{"terminal":true,`, 1)
	if !strings.Contains(text, `"terminal":true`) {
		t.Fatal("config.json has another form")
	}
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestOutputUnread: nobody reads, and the container ends all the same once it
// is over the limit. What it was allowed is there for who comes late.
func TestOutputUnread(t *testing.T) {
	a, id := newAudited(t), harness.NewID()
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	run := a.StartWith(t, func(cmd *exec.Cmd) { cmd.Stdout = w }, "run", "--bundle", shell(t, flood, "", "process.max_output_bytes=70000"), id)
	w.Close()
	harness.Eventually(t, "the audit tells the end", func() bool { return strings.Contains(a.auditText(t, id), `"exit"`) })
	got := 0
	for buf := make([]byte, 4096); ; {
		n, err := r.Read(buf)
		got += n
		if err != nil {
			break
		}
	}
	res := run.Wait(t)
	if e := a.ended(t, id); got != 70000 || res.Code != 137 || e.Reason != "output_limit" {
		t.Errorf("got %d bytes, exit status %d and %+v, want 70000, 137 and output_limit", got, res.Code, e)
	}
}

func (a audited) auditText(t *testing.T, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(a.dir, id+".jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// TestOutputUncounted: where nobody would count, there is no container, whatever
// the bundle says.
//
// Proves: S-166, A-030.
func TestOutputUncounted(t *testing.T) {
	a := newAudited(t)
	b := shell(t, "echo ran >&2; sleep 1000", "", limited)
	env := strings.Replace(readText(t, filepath.Join(b, "config.json")), `"env":[`, `"env":["SAGE_OUTPUT=/tmp",`, 1)
	check(t, os.WriteFile(filepath.Join(b, "config.json"), []byte(env), 0o600))
	for _, args := range [][]string{{"create"}, {"run", "--detach"}} {
		id := harness.NewID()
		res := a.Run(t, append(args, "--bundle", b, id)...)
		if res.Code == 0 || !strings.Contains(res.Stderr, "process.max_output_bytes: saw 100003 bytes") || !strings.Contains(res.Stderr, "[sandbox.capability_unsupported]") {
			t.Errorf("%v: got %s, want sandbox.capability_unsupported", args, res)
		}
	}
	// With the word of a caller, who then has not done what he said.
	a.Env = append(a.Env, "SAGE_OUTPUT=/no/such/directory")
	for _, args := range [][]string{{"create"}, {"run", "--detach"}} {
		id := harness.NewID()
		if res := a.Run(t, append(args, "--bundle", b, id)...); res.Code == 0 || !strings.Contains(res.Stderr, "[sandbox.") {
			t.Errorf("%v with a caller's word: got %s, want a refusal", args, res)
		}
	}
	if list := a.Must(t, "list", "--quiet").Stdout; list != "" {
		t.Errorf("got containers %q, want none", list)
	}
	// A detached container without the limit does not look at the word.
	a.Must(t, "run", "--detach", "--bundle", shell(t, "sleep 1000", ""), harness.NewID())
}

// TestOutputOfHost: the host gives a default and a ceiling, and a bundle can ask
// for less only. What an exec writes is not the container's first process's.
func TestOutputOfHost(t *testing.T) {
	host := "profiles:\n  agent:\n    defaults: {resources: {require_hard_limits: false}, process: {max_output_bytes: 1000}}\n" +
		"    limits: {process: {max_output_bytes: 2000}}\n"
	a := audited{Runtime: harness.NewRuntimeWith(t, "version: 1\ndefault_profile: agent\n"+host)}
	for annotation, want := range map[string]int{"": 1000, "process.max_output_bytes=10": 10, "process.max_output_bytes=2000": 2000} {
		var annotations []string
		if annotation != "" {
			annotations = append(annotations, annotation)
		}
		res := a.Run(t, "run", "--bundle", shell(t, flood, "", annotations...), harness.NewID())
		if got, _ := letters(res); got != want || res.Code != 137 {
			t.Errorf("%q: got %d bytes and exit status %d, want %d and 137", annotation, got, res.Code, want)
		}
	}
	for _, text := range []string{"2001", "0", "-1", "none"} {
		res := a.Run(t, "run", "--bundle", shell(t, "true", "", "process.max_output_bytes="+text), harness.NewID())
		if res.Code == 0 || !strings.Contains(res.Stderr, "[sandbox.") {
			t.Errorf("%s: got %s, want a refusal", text, res)
		}
	}
	id := harness.NewID()
	run := a.Start(t, "run", "--bundle", shell(t, "echo up; sleep 1000", ""), id)
	harness.Eventually(t, "it runs", func() bool { return strings.Contains(run.Stdout(t), "up") })
	if got, _ := letters(a.Must(t, "exec", id, "sh", "-c", few("5000"))); got != 5000 {
		t.Errorf("exec: got %d bytes, want 5000", got)
	}
	a.Must(t, "kill", id, "KILL")
	run.Wait(t)
}
