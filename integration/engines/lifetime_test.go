//go:build engines

package engines

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// watched has an audit, which says why a container ended. Its folder lies on a
// file system that every process of the capsule sees.
var watched = newHostFile("watched", harness.SoftAgent+"audit_dir: "+watchedAudit+"\n")

const watchedAudit = "/var/log/sage-ring"

// TestLifetime: with Docker's own way of naming a runtime, where a pair of
// processes watches, and with our shim, which watches by itself, a container
// ends when it has to, Docker is told how, and the audit why.
//
// Proves: S-136, S-150, S-154.
func TestLifetime(t *testing.T) {
	if err := os.MkdirAll(watchedAudit, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct{ name, runtime string }{
		{"runc's shim", watched.docker()}, {"our shim", watched.dockerShim()},
	} {
		t.Run(w.name, func(t *testing.T) {
			for _, c := range lifetimeCases {
				t.Run(c.name, func(t *testing.T) { c.try(t, newDocker(t, w.runtime)) })
			}
			t.Run("watcher killed", func(t *testing.T) { lifetimeKilled(t, newDocker(t, w.runtime)) })
		})
	}
}

type lifetimeCase struct {
	name   string
	flags  []string
	script string
	state  string // of Docker: OOMKilled and the exit code
	reason string // of the audit
}

var lifetimeCases = []lifetimeCase{
	{"timeout", []string{"--annotation=sage.sandbox.timeout_seconds=2"}, "setsid sleep 100 & cat; sleep 100", "false 137", "timeout"},
	{"timeout that is not reached", []string{"--annotation=sage.sandbox.timeout_seconds=60"}, "exit 3", "false 3", "exited"},
	{"disk", []string{"--annotation=sage.sandbox.resources.disk_mb=8"}, "for i in 1 2 3 4; do dd if=/dev/zero of=/f$i bs=1M count=4; done; sleep 100", "false 137", "sampler_limit"},
	{"memory", []string{"--memory=16m", "--memory-swap=16m"}, eatMemory, "true 137", "oom_killed"},
}

func (c lifetimeCase) try(t *testing.T, d docker) {
	args := append([]string{"--interactive"}, c.flags...)
	id := d.detached(t, append(args, busybox, "sh", "-c", c.script)...)
	d.awaitField(t, id, ".State.Status", "exited")
	if got := d.inspect(t, id, ".State.OOMKilled") + " " + d.inspect(t, id, ".State.ExitCode"); got != c.state {
		t.Errorf("OOMKilled and exit code: got %s, want %s", got, c.state)
	}
	// Of what ended by itself, nobody of sage's saw the status under runc's shim.
	want := c.reason
	eventually(t, "reason in the audit", want, func() string {
		reason, seen := auditedReason(t, id)
		if seen && reason == "" && c.reason == "exited" && !strings.HasSuffix(d.runtime, "shim") {
			return want
		}
		return reason
	})
}

func auditedReason(t *testing.T, id string) (reason string, seen bool) {
	t.Helper()
	text := contentOf(watchedAudit + "/" + id + ".jsonl")
	for line := range strings.Lines(text) {
		var e struct{ Event, Reason string }
		if err := json.Unmarshal([]byte(line), &e); err == nil && e.Event == "exit" {
			return e.Reason, true
		}
	}
	return "", false
}

// Whoever watches is killed, and the container does not outlive it.
//
// Proves: S-152.
func lifetimeKilled(t *testing.T, d docker) {
	id := d.detached(t, "--annotation=sage.sandbox.timeout_seconds=600", busybox, "sleep", "1000")
	var claims []string
	for _, root := range []string{filepath.Join(theRing.dir, "docker/exec/runtime-*/*"), "/run/containerd/sage/*"} {
		found, _ := filepath.Glob(filepath.Join(root, id, "sage-watcher.json"))
		claims = append(claims, found...)
	}
	if len(claims) != 1 {
		t.Fatalf("got %q, want one file that says who watches", claims)
	}
	var who struct{ Pid int }
	if err := json.Unmarshal([]byte(contentOf(claims[0])), &who); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(who.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	d.awaitField(t, id, ".State.Status", "exited")
	t.Logf("ended %v after its watcher", time.Since(since))
}
