//go:build kernel

package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

// TestMain is the test, or what a test started.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "child-") {
		os.Exit(m.Run())
	}
	err := map[string]func() error{
		"child-check": printCheck, "child-sleep": sleep, "child-threads": filterOneThread,
	}[os.Args[1]]()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func printCheck() error {
	return json.NewEncoder(os.Stdout).Encode(Check(context.Background(), Host{}))
}

// fileSize is what the sleeper sets its RLIMIT_FSIZE to: without
// CAP_SYS_RESOURCE, not even root could do it for another user's process.
const fileSize = 1 << 20

func sleep() error {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fileSize, Max: 2 * fileSize}); err != nil {
		return err
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return nil
}

// filterOneThread loads a second filter for one thread of several.
func filterOneThread() error {
	loaded := make(chan error)
	go func() {
		runtime.LockOSThread()
		loaded <- sys.LoadFilter(probeFilter())
		time.Sleep(time.Hour)
	}()
	if err := <-loaded; err != nil {
		return err
	}
	return sleep()
}

// start starts the test binary in a role; prepare is run on the thread that
// does so, which ends with the start. Its first line has been read if ready.
func start(t *testing.T, cmd *exec.Cmd, prepare func() error) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	sys.OnDyingThread(func() {
		if err = prepare(); err == nil {
			err = cmd.Start()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line := make([]byte, 64)
	if n, err := out.Read(line); string(line[:n]) != "ready\n" {
		t.Fatalf("the child said %q, %v; want that it is ready", line[:n], err)
	}
}

// check runs Check in a process of its own.
func check(t *testing.T, attr *syscall.SysProcAttr, prepare func() error) map[string]Finding {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "child-check")
	cmd.SysProcAttr = attr
	var out []byte
	var err error
	sys.OnDyingThread(func() {
		if err = prepare(); err == nil {
			out, err = cmd.Output()
		}
	})
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var findings []Finding
	if err := json.Unmarshal(out, &findings); err != nil {
		t.Fatal(err)
	}
	byName := map[string]Finding{}
	for _, f := range findings {
		byName[f.Name] = f
	}
	return byName
}

func nothing() error { return nil }

// children are the processes that this one has, ended ones included.
func children(t *testing.T) []string {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, task := range tasks {
		data, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(data))...)
	}
	return pids
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func tgid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) }

func dropBoundingBut(keep ...int) error {
	for bit := range unix.CAP_LAST_CAP + 1 {
		kept := false
		for _, k := range keep {
			kept = kept || k == bit
		}
		if kept {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
