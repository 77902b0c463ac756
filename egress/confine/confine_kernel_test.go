//go:build kernel

package confine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// user is one that has nothing on this machine.
const user = 64399

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "confined" {
		confined(os.Args[2], os.Args[3], os.Args[4])
	}
	if len(os.Args) == 2 && os.Args[1] == "obey" {
		obey()
	}
	os.Exit(m.Run())
}

// confined is the child's part: many threads, confinement, one attack from a
// thread that was there before, and the errno as the last line.
func confined(root, role, attack string) {
	run := manyThreads()
	o := Options{Role: Bridge, UID: user, GID: user, Root: root, Files: 64}
	if strings.HasPrefix(role, "proxy") {
		o.Role = Proxy
	}
	filter, err := Filter(o.Role, os.Getpid())
	if strings.HasSuffix(role, "-bare") {
		filter = nil
		for _, word := range []uint32{unix.BPF_RET | unix.BPF_K, unix.SECCOMP_RET_ALLOW} {
			filter = binary.NativeEndian.AppendUint32(filter, word)
		}
	}
	if err == nil {
		err = enter(o, filter)
	}
	if err != nil {
		fmt.Println("not confined:", err)
		os.Exit(3)
	}
	run(func() {
		for _, a := range attacks {
			if a.name == attack {
				fmt.Println("errno", int(a.do()))
				os.Exit(0)
			}
		}
		keepBusy()
		fmt.Println("errno 0")
		os.Exit(0)
	})
}

// manyThreads gives a function that runs another on one of twenty threads that
// exist already.
func manyThreads() func(func()) {
	jobs := make(chan func())
	var up sync.WaitGroup
	for range 20 {
		up.Add(1)
		go func() {
			runtime.LockOSThread()
			up.Done()
			(<-jobs)()
		}()
	}
	up.Wait()
	return func(f func()) {
		jobs <- f
		select {}
	}
}

// keepBusy has the runtime do all it does by itself: collect, preempt, start
// threads, sleep, grow.
func keepBusy() {
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			runtime.LockOSThread()
			var keep [][]byte
			for i := range 50 {
				keep = append(keep, make([]byte, 50_000))
				time.Sleep(time.Duration(i) * time.Microsecond)
			}
			runtime.GC()
			runtime.KeepAlive(keep)
		})
	}
	all.Wait()
	time.Sleep(2500 * time.Millisecond) // what the runtime does every second
}

// child runs this test's own program and gives its output and how it ended.
func child(t *testing.T, root, role, attack string) (string, syscall.WaitStatus) {
	t.Helper()
	return finish(t, exec.CommandContext(t.Context(), "/proc/self/exe", "confined", root, role, attack), (*exec.Cmd).Start)
}

func finish(t *testing.T, cmd *exec.Cmd, start func(*exec.Cmd) error) (string, syscall.WaitStatus) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return strings.TrimSpace(out.String()), status
}

func emptyRoot(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "confine") //nolint:usetesting // the parents of a test's own are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(root) })
	if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestAttacks has a confined process try what an attacker would.
//
// Proves: G-05.
func TestAttacks(t *testing.T) {
	root := emptyRoot(t)
	for _, a := range attacks {
		for _, role := range []string{"bridge", "proxy"} {
			t.Run(a.name+" by the "+role, func(t *testing.T) {
				out, status := child(t, root, role, a.name)
				if a.proxy && role == "proxy" {
					if out != "errno 0" {
						t.Errorf("saw %q (%v), want it allowed", out, status)
					}
				} else if !status.Signaled() || status.Signal() != unix.SIGSYS {
					t.Errorf("saw %q and status %x, want death by SIGSYS", out, status)
				}
			})
		}
	}
}

// TestBarriers takes the filter away: what is left must refuse, too.
//
// Proves: G-05.
func TestBarriers(t *testing.T) {
	root := emptyRoot(t)
	for _, a := range attacks {
		if a.bare == 0 {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			out, status := child(t, root, "bridge-bare", a.name)
			if want := fmt.Sprint("errno ", int(a.bare)); out != want {
				t.Errorf("saw %q (status %x), want %q (%v)", out, status, want, a.bare)
			}
		})
	}
}

// TestGoesOn shows that the Go runtime misses nothing of what was taken.
func TestGoesOn(t *testing.T) {
	root := emptyRoot(t)
	for _, role := range []string{"bridge", "proxy"} {
		if out, status := child(t, root, role, "none"); out != "errno 0" {
			t.Errorf("%s: saw %q and status %x", role, out, status)
		}
	}
}

// TestStart starts a program that lies where only root can go, with a root that
// only root can reach, as the runtime does. Before it has confined itself it
// has no more than what it needs for that.
//
// Proves: G-05.
func TestStart(t *testing.T) {
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	root, program := filepath.Join(private, "root"), filepath.Join(private, "program")
	exe, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.Mkdir(root, 0o555), os.WriteFile(program, exe, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	start := func(cmd *exec.Cmd) error { return Start(cmd, user, user) }
	for _, role := range []string{"bridge", "proxy"} {
		if out, status := finish(t, exec.CommandContext(t.Context(), program, "confined", root, role, "none"), start); out != "errno 0" {
			t.Errorf("%s: saw %q and status %x", role, out, status)
		}
	}
	out, _ := finish(t, exec.CommandContext(t.Context(), "/bin/grep", "-E", "^(Uid|Gid|Groups|Cap...|NoNewPrivs):", "/proc/self/status"), start)
	const caps = "0000000000040004" // CAP_SYS_CHROOT, CAP_DAC_READ_SEARCH
	want := strings.Join([]string{
		"Uid:64399643996439964399", "Gid:64399643996439964399", "Groups:", "CapInh:" + caps, "CapPrm:" + caps, "CapEff:" + caps,
		"CapBnd:0000000000000000", "CapAmb:" + caps, "NoNewPrivs:1",
	}, "\n")
	if got := strings.NewReplacer("\t", "", " ", "").Replace(out); got != want {
		t.Errorf("saw\n%s\nwant\n%s", got, want)
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil || strings.Contains(string(text), "CapBnd:\t0000000000000000") || !strings.Contains(string(text), "NoNewPrivs:\t0") {
		t.Errorf("the caller itself lost something: %v\n%s", err, text)
	}
}

// TestRefusals has what is not as it must be told before anything is served.
func TestRefusals(t *testing.T) {
	full, writable := emptyRoot(t), emptyRoot(t)
	if err := os.WriteFile(full+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(full + "/x") })
	if err := os.Chmod(writable, 0o777); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		full: "want an empty directory", writable: "cannot write to", "/nowhere": "no such file",
	} {
		if out, status := child(t, root, "bridge", "none"); status.ExitStatus() != 3 || !strings.Contains(out, want) {
			t.Errorf("root %s: saw %q and status %x, want %q", root, out, status, want)
		}
	}
	for _, o := range []Options{{Role: Bridge, GID: 1}, {Role: Bridge, UID: 1}, {UID: 1, GID: 1}} {
		if err := Enter(o); errcode.Of(err) != errcode.EnforcementFailed {
			t.Errorf("Enter(%+v): %v", o, err)
		}
	}
}

// TestLandlock says which barrier this kernel has, since the tests above pass
// with and without it.
func TestLandlock(t *testing.T) {
	has, err := sys.FindLandlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("landlock: ABI %d, errata %b; bridge %+v", has.ABI, has.Errata, ruleset(Bridge, has))
}

// TestCloseOthers leaves what is named and the standard three.
func TestCloseOthers(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `exec 5</dev/null 6</dev/null 7</dev/null; exec "$0" -test.run TestCloseOthersChild -test.v`, "/proc/self/exe")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[3] = exe
	cmd.Env = append(os.Environ(), "CLOSE_OTHERS=6")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "open: [6]") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestCloseOthersChild is TestCloseOthers's other process.
func TestCloseOthersChild(t *testing.T) {
	if os.Getenv("CLOSE_OTHERS") == "" {
		return
	}
	if err := CloseOthers(6); err != nil {
		t.Fatal(err)
	}
	var open []int
	for fd := 5; fd <= 7; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			open = append(open, fd)
		}
	}
	fmt.Println("open:", open)
}
