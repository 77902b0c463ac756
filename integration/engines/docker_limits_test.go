//go:build engines

package engines

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
)

// Up and down again. Down is the harder one: memory and swap have to be written
// in an order that the kernel accepts at every step.
func dockerUpdate(t *testing.T, d docker) {
	id := d.idle(t, "--memory=64m", "--memory-swap=64m", "--pids-limit=40")
	wantLimits(t, id, 64<<20, 40)
	d.must(t, "update", "--memory=96m", "--memory-swap=96m", "--pids-limit=50", id)
	wantLimits(t, id, 96<<20, 50)
	d.must(t, "update", "--memory=48m", "--memory-swap=48m", "--pids-limit=30", id)
	wantLimits(t, id, 48<<20, 30)
	d.try(t, "exec", id, "true").want(t, 0)
}

// wantLimits compares with the kernel's files, not with the engine's word.
func wantLimits(t *testing.T, id string, memory, pids int) {
	t.Helper()
	if got := memoryLimit.read(t, id); got != fmt.Sprint(memory) {
		t.Errorf("memory limit: got %s, want %d", got, memory)
	}
	if got := pidsLimit.read(t, id); got != fmt.Sprint(pids) {
		t.Errorf("pids limit: got %s, want %d", got, pids)
	}
}

// eatMemory doubles a string in a shell, which needs nothing in the image.
const eatMemory = "x=x; while :; do x=$x$x; done"

// The shim must notice the kernel's kill before it reports the exit, or the
// engine records a plain 137.
func dockerOutOfMemory(t *testing.T, d docker) {
	since := d.must(t, "info", "--format", "{{.SystemTime}}")
	id := d.detached(t, "--memory=16m", "--memory-swap=16m", busybox, "sh", "-c", eatMemory)
	d.awaitField(t, id, ".State.Status", "exited")
	got := d.inspect(t, id, ".State.OOMKilled") + " " + d.inspect(t, id, ".State.ExitCode")
	if got != "true 137" {
		t.Errorf("OOMKilled and exit code: got %s, want true 137", got)
	}
	if events := strings.Join(dockerEventsOf(t, d, id, since), ","); !strings.Contains(events, "oom") {
		t.Errorf("events: got %s, want oom among them", events)
	}
}

// The shim reads the cgroup by itself for this, by the path that the runtime
// gave it.
func dockerStats(t *testing.T, d docker) {
	id := d.idle(t, "--memory=64m", "--memory-swap=64m")
	var stats struct{ MemUsage, MemPerc, PIDs, CPUPerc string }
	if err := json.Unmarshal([]byte(d.must(t, "stats", "--no-stream", "--format", "{{json .}}", id)), &stats); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(stats.MemUsage, "/ 64MiB") || strings.HasPrefix(stats.MemUsage, "0B") {
		t.Errorf("memory: got %q, want something above zero of 64MiB", stats.MemUsage)
	}
	if stats.PIDs == "0" || stats.PIDs == "" {
		t.Errorf("pids: got %q, want one or two", stats.PIDs)
	}
	if !strings.HasSuffix(stats.CPUPerc, "%") {
		t.Errorf("processor: got %q, want a percentage", stats.CPUPerc)
	}
}

// Joining the namespaces of another container is done by path, by the runtime.
func dockerSharedNamespaces(t *testing.T, d docker) {
	id := d.idle(t, "--ipc=shareable", "--hostname=first")
	d.run(t, "--pid=container:"+id, busybox, "cat", "/proc/1/cmdline").want(t, 0, "trap")
	d.run(t, "--ipc=container:"+id, busybox, "true").want(t, 0)
	r := d.try(t, "run", "--rm", "--runtime", d.runtime, "--network=container:"+id, busybox, "hostname")
	r.want(t, 0, "first")
}

// One container reaches another over the bridge, and the host reaches it at a
// published port.
func dockerNetwork(t *testing.T, d docker) {
	id := d.must(t, "run", "--detach", "--runtime", d.runtime, "--publish=127.0.0.1::80", busybox,
		"nc", "-ll", "-p", "80", "-e", "echo", "hello over the bridge")
	t.Cleanup(func() { d.quietly("rm", "--force", id) })
	address := d.inspect(t, id, ".NetworkSettings.Networks.bridge.IPAddress")
	eventually(t, "answer over the bridge", "hello over the bridge\n", func() string {
		return d.try(t, "run", "--rm", "--runtime", d.runtime, busybox, "nc", "-w", "5", address, "80").out
	})
	published := d.must(t, "port", id, "80")
	eventually(t, "answer at "+published, "hello over the bridge\n", func() string { return dialed(published) })
}

// dialed is what a server says to whoever connects, or the error.
func dialed(address string) string {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	text := make([]byte, 100)
	n, err := conn.Read(text)
	if err != nil {
		return err.Error()
	}
	return string(text[:n])
}
