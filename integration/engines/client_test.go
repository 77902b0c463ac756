//go:build engines

package engines

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// client is an engine's command line, with the flags that lead it to the
// ring's own daemon.
type client struct {
	program string
	flags   []string
}

// result is what a command said and how it ended.
type result struct {
	out, errs string
	code      int
}

// hang is how long any command may take. It is far above what the slowest
// needs on a loaded machine: to reach it means to hang.
const hang = 90 * time.Second

func (c client) command(args ...string) *exec.Cmd {
	return theRing.program(c.program, append(append([]string{}, c.flags...), args...)...)
}

// try runs a command and gives its result, good or bad.
func (c client) try(t *testing.T, args ...string) result {
	t.Helper()
	return c.feed(t, "", args...)
}

// feed is try with something on stdin.
func (c client) feed(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := c.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	r, err := finish(cmd)
	if err != nil {
		t.Fatalf("%s %s: %v", c.program, strings.Join(args, " "), err)
	}
	return r
}

// must runs a command that has to succeed and gives its trimmed output.
func (c client) must(t *testing.T, args ...string) string {
	t.Helper()
	r := c.try(t, args...)
	if r.code != 0 {
		t.Fatalf("%s %s: exit %d: %s%s", c.program, strings.Join(args, " "), r.code, r.errs, r.out)
	}
	return strings.TrimSpace(r.out)
}

// quietly is for clean-up, where the test's own context is over already.
func (c client) quietly(args ...string) {
	_, _ = finish(c.command(args...))
}

// finish runs cmd to its end, and no longer than hang.
func finish(cmd *exec.Cmd) (result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	over := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !over() {
		return result{}, fmt.Errorf("no end after %v; it said: %s%s", hang, out.String(), errs.String())
	}
	return result{out.String(), errs.String(), exitCode(err)}, nil
}

// want fails the test unless the command ended with the code, and said each
// phrase on stdout or stderr.
func (r result) want(t *testing.T, code int, phrases ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code: got %d, want %d; output: %s%s", r.code, code, r.out, r.errs)
	}
	for _, p := range phrases {
		if !strings.Contains(r.out+r.errs, p) {
			t.Errorf("output: got %q, want it to hold %q", r.out+r.errs, p)
		}
	}
}

// eventually fails the test when ask keeps giving something else than want.
func eventually(t *testing.T, what, want string, ask func() string) {
	t.Helper()
	var got string
	ok := poll(30*time.Second, func() bool {
		got = ask()
		return got == want
	})
	if !ok {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}
