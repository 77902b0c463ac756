package shim

import (
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/sys/reaper"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// reapAll does what containerd's run loop does while Stop runs: Stop waits for
// exit statuses that only a reaper hands out.
func reapAll(t *testing.T) {
	t.Helper()
	children, done := make(chan os.Signal, 32), make(chan struct{})
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		defer close(done)
		for range children {
			if err := reaper.Reap(); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() {
		signal.Stop(children)
		close(children)
		<-done
	})
}

// TestStop runs the clean-up on bundles in every state that a shim which was
// killed can leave.
func TestStop(t *testing.T) {
	reapAll(t)
	const exit = `{"Timestamp":"2026-01-02T03:04:05Z","Pid":42,"Status":3}`
	killed := containerdshim.StopStatus{ExitStatus: 128 + 9}
	tests := []struct {
		name     string
		files    map[string]string
		wantRoot string // of the call of the runtime; "" where there is none
		wantArgs string // global arguments after the root
		want     containerdshim.StopStatus
	}{
		{"nothing was recorded", nil, Root, "", killed},
		{"the record was cut short", map[string]string{"options.json": `{"root":"/r`}, Root, "", killed},
		{"the record is empty", map[string]string{"options.json": ""}, Root, "", killed},
		{
			"options were recorded",
			map[string]string{"options.json": `{"root":"/r"}`, "init.pid": "17"},
			"/r", "",
			containerdshim.StopStatus{ExitStatus: 128 + 9, Pid: 17},
		},
		{"systemd's driver was recorded", map[string]string{"options.json": `{"root":"/r","systemd_cgroup":true}`}, "/r", " --systemd-cgroup", killed},
		{
			"the exit was recorded",
			map[string]string{"exit.json": exit},
			Root, "",
			containerdshim.StopStatus{Pid: 42, ExitStatus: 3, ExitedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		},
		{"the exit was cut short", map[string]string{"exit.json": exit[:20], "init.pid": "x"}, Root, "", killed},
		{
			"the container was deleted",
			map[string]string{deletedFile: "", "exit.json": exit},
			"", "",
			containerdshim.StopStatus{Pid: 42, ExitStatus: 3, ExitedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runtime, calls := runtimeScript(t, "")
			bundle := newBundle(t, tt.files)
			got := stop(t, bundle)
			if tt.want.ExitedAt.IsZero() && time.Since(got.ExitedAt) < time.Minute {
				got.ExitedAt = time.Time{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			want := ""
			if tt.wantRoot != "" {
				want = runtime + " --root " + tt.wantRoot + "/ns1 --log " + bundle + "/log.json --log-format json" + tt.wantArgs + " delete --force c1\n"
			}
			checkFile(t, calls, want)
		})
	}
}

// TestStopGoesOn: a runtime that fails or is not there does not keep the bundle.
func TestStopGoesOn(t *testing.T) {
	reapAll(t)
	for name, binary := range map[string]string{"failing": "/bin/false", "missing": "/no/such/runtime"} {
		t.Run(name, func(t *testing.T) {
			bundle := newBundle(t, map[string]string{"options.json": `{"binary_name":"` + binary + `"}`})
			if got := stop(t, bundle); got.ExitStatus != 128+9 {
				t.Errorf("got exit status %d, want 137", got.ExitStatus)
			}
		})
	}
}

// newBundle makes the bundle of c1 and, as in a pod, works in a neighbour.
func newBundle(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	bundle, pod := filepath.Join(dir, "c1"), filepath.Join(dir, "pod")
	for _, made := range []string{bundle, pod} {
		if err := os.Mkdir(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(t, filepath.Join(bundle, name), text)
	}
	t.Chdir(pod)
	return bundle
}

func stop(t *testing.T, bundle string) containerdshim.StopStatus {
	t.Helper()
	got, err := (&shimManager{}).Stop(namespaces.WithNamespace(t.Context(), "ns1"), filepath.Base(bundle))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStopErrors(t *testing.T) {
	ctx := namespaces.WithNamespace(t.Context(), "ns1")
	for _, id := range []string{"", ".", "..", "/", "../c1", "a/b"} {
		_, err := (&shimManager{}).Stop(ctx, id)
		checkInvalid(t, err, "the id is not a name")
	}
	if _, err := (&shimManager{}).Stop(t.Context(), "c1"); err == nil {
		t.Error("without a namespace: got no error")
	}
}

func TestRemoveSockets(t *testing.T) {
	listen := func(name string) (path string, listener *net.UnixListener) {
		path = filepath.Join(t.TempDir(), name)
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false) // as when its process was killed
		return path, listener
	}
	dead, deadListener := listen("dead")
	alive, aliveListener := listen("alive")
	_ = deadListener.Close()
	defer aliveListener.Close()
	gone := filepath.Join(t.TempDir(), "gone")
	removeSockets(t.Context(), []string{"", "unix://" + gone, "unix://" + dead, "unix://" + alive})
	if _, err := os.Lstat(dead); err == nil {
		t.Error("the socket of a dead shim is still there")
	}
	if _, err := os.Lstat(alive); err != nil {
		t.Errorf("the socket of a pod's living shim: %v", err)
	}
}

func TestSocketAddresses(t *testing.T) {
	const noted = `{"version":3,"address":"unix:///run/s/noted","protocol":"ttrpc"}`
	ctx := namespaces.WithNamespace(t.Context(), "ns1")
	own := func(debug bool) string {
		address, err := containerdshim.CreateSocketAddress(ctx, "/run/s", "/c.sock", "c1", debug)
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	tests := []struct {
		name, bootstrap, link string
		want                  []string
	}{
		{"all there is", noted, "/run/s", []string{"unix:///run/s/noted", own(false), own(true)}},
		{"killed before it was noted", "", "/run/s", []string{"", own(false), own(true)}},
		{"noted half", noted[:30], "/run/s", []string{"", own(false), own(true)}},
		{"noted only", noted, "", []string{"unix:///run/s/noted"}},
		{"neither", "", "", []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bundle := t.TempDir()
			if tt.bootstrap != "" {
				write(t, filepath.Join(bundle, "bootstrap.json"), tt.bootstrap)
			}
			if tt.link != "" {
				if err := os.Symlink(tt.link, filepath.Join(bundle, "s")); err != nil {
					t.Fatal(err)
				}
			}
			got := socketAddresses(ctx, bundle, "c1", "/c.sock")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}
