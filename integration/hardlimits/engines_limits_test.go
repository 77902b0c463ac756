//go:build vm

package hardlimits

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/integration/harness"
)

// reason is that of the end, as the audit has it.
func reason(t *testing.T, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(enginesAudit, id+".jsonl"))
	if err != nil {
		return err.Error()
	}
	last := "no exit in the audit"
	for line := range strings.Lines(string(data)) {
		var event struct{ Event, Reason string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Event == "exit" {
			last = event.Reason
		}
	}
	return last
}

// The child allocates, and all of the container dies.
func engineMemory(t *testing.T, e docker) {
	id := e.start(t, "--memory=64m", harness.BusyboxImage, "sh", "-c", "sh -c 'x=x; while :; do x=$x$x; done'; echo survived; sleep 1000")
	if got := e.ended(t, id); got != "true 137" {
		t.Errorf("OOMKilled and exit code: got %s, want true 137", got)
	}
	if out := e.must(t, "logs", id); out != "" {
		t.Errorf("the container printed %q, want it dead as a group", out)
	}
	await(t, "the audit says oom_killed", func() bool { return reason(t, id) == "oom_killed" })
	// Docker's own default is as much swap again.
	stays := e.start(t, "--memory=64m", harness.BusyboxImage, "sleep", "1000")
	for name, want := range map[string]string{
		"memory.max": strconv.Itoa(64 * mebibyte), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "64",
	} {
		if got := e.file(t, stays, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// Attack 15: a fork bomb, then exec.
func engineProcesses(t *testing.T, e docker) {
	id := e.start(t, harness.BusyboxImage, "sh", "-c", "until [ -e /go ]; do sleep 1; done; sh -c 'while :; do sleep 1000 & done'; exec sleep 1000")
	e.must(t, "exec", "--detach", id, "sleep", "1000")
	await(t, "the exec is counted", func() bool { return e.file(t, id, "pids.current") == "3" })
	e.must(t, "exec", id, "touch", "/go")
	await(t, "the fork bomb has reached the number", func() bool { return e.file(t, id, "pids.events") != "max 0" })
	if n, err := strconv.Atoi(e.file(t, id, "pids.current")); err != nil || n > 64 || n < 60 {
		t.Errorf("got %d processes, want 64 at most and hardly less", n)
	}
	if _, err := harness.Output(e.d.Command(t, "version")); err != nil {
		t.Errorf("the host beside it: %v", err)
	}
	e.try(t, "exec", id, "true").wantRefused(t, "sandbox.resource_exhausted", "resources.max_processes")
	small := e.start(t, "--pids-limit=20", harness.BusyboxImage, "sleep", "1000")
	if got := e.file(t, small, "pids.max"); got != "20" {
		t.Errorf("pids.max: got %s, want 20", got)
	}
	e.must(t, "exec", small, "true")
}

func engineProcessor(t *testing.T, e docker) {
	id := e.start(t, "--cpus=0.5", harness.BusyboxImage, "sh", "-c", "while :; do :; done & while :; do :; done")
	if got := e.file(t, id, "cpu.max"); got != "50000 100000" {
		t.Errorf("cpu.max: got %s", got)
	}
	first, since := e.used(t, id, "usage_usec"), time.Now()
	time.Sleep(4 * time.Second)
	used := time.Duration(e.used(t, id, "usage_usec")-first) * time.Microsecond
	share := float64(used) / float64(time.Since(since))
	if share > 0.55 || share < 0.4 || e.used(t, id, "nr_throttled") == 0 {
		t.Errorf("got %.2f of a processor, throttled %d times, want 0.5", share, e.used(t, id, "nr_throttled"))
	}
}

func (e docker) used(t *testing.T, id, name string) (n int64) {
	t.Helper()
	for line := range strings.Lines(e.file(t, id, "cpu.stat")) {
		if _, err := fmt.Sscanf(line, name+" %d", &n); err == nil {
			return n
		}
	}
	t.Fatalf("cpu.stat has no %s", name)
	return 0
}

// Docker's update may tighten and not raise.
func engineUpdate(t *testing.T, e docker) {
	id := e.start(t, "--memory=96m", "--memory-swap=96m", "--pids-limit=50", harness.BusyboxImage, "sleep", "1000")
	e.must(t, "update", "--memory=64m", "--memory-swap=64m", "--pids-limit=40", id)
	for name, want := range map[string]string{"memory.max": strconv.Itoa(64 * mebibyte), "pids.max": "40", "memory.swap.max": "0"} {
		if got := e.file(t, id, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if a := e.try(t, "update", "--memory=128m", "--memory-swap=128m", id); a.code == 0 || !strings.Contains(a.errs, "sandbox.") {
		t.Errorf("raised: %s, want a refusal with a code", a)
	}
	if got := e.file(t, id, "memory.max"); got != strconv.Itoa(64*mebibyte) {
		t.Errorf("memory.max after a refused update: got %s", got)
	}
	e.must(t, "exec", id, "true")
}

// What is too much is told to Docker's user in our words, and leaves nothing.
func engineRefusals(t *testing.T, e docker) {
	nothingHeld(t)
	for _, c := range []struct{ flag, code, phrase string }{
		{"--annotation=sage.sandbox.resources.disk_mb=99999", "sandbox.limit_exceeded", "resources.disk_mb"},
		{"--annotation=sage.sandbox.resources.disk=1", "sandbox.annotation_invalid", "sage.sandbox.resources.disk"},
		{"--memory=100g", "sandbox.limit_exceeded", "memory"},
		{"--annotation=sage.sandbox.resources.require_hard_limits=false", "sandbox.", "require_hard_limits"},
	} {
		a := e.run(t, c.flag, harness.BusyboxImage, "true")
		if a.code == 0 || !strings.Contains(a.errs, c.code) || !strings.Contains(a.errs, c.phrase) {
			t.Errorf("%s: got %s, want %s and %s", c.flag, a, c.code, c.phrase)
		}
		t.Logf("%s: %s", c.flag, a.errs)
	}
	nothingHeld(t)
}

// What users add to docker run all the time.
func engineOptions(t *testing.T, e docker) {
	e.run(t, "--shm-size=8m", "--tmpfs=/scratch:size=4m", harness.BusyboxImage, "sh", "-c",
		"echo x > /scratch/x && echo x > /dev/shm/x && echo x > /tmp/x").wantOK(t)
	e.run(t, "--read-only", harness.BusyboxImage, "sh", "-c", "! echo x > /x 2>/dev/null && echo x > /tmp/x").wantOK(t)
	e.run(t, "--annotation=sage.sandbox.profile=sage", harness.BusyboxImage, "sh", "-c", "! echo x > /x 2>/dev/null && echo x > /tmp/x").wantOK(t)
}
