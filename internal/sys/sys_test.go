package sys_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

func TestNamespaceID(t *testing.T) {
	net, err := sys.NamespaceID(os.Getpid(), "net")
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		t.Fatal(err)
	}
	if want := (sys.Namespace{Dev: st.Dev, Ino: st.Ino}); net != want {
		t.Errorf("net is %v, want %v", net, want)
	}
	if ipc, err := sys.NamespaceID(os.Getpid(), "ipc"); err != nil || ipc == net {
		t.Errorf("ipc is %v, %v; want another than net", ipc, err)
	}
	if got, err := sys.NamespaceID(os.Getpid(), "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no kind got %v, %v; want that there is none", got, err)
	}
}

func TestFSMagic(t *testing.T) {
	for name, flags := range map[string]int{"open": unix.O_RDONLY, "O_PATH": unix.O_PATH} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Open("/proc", flags|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if got, err := sys.FSMagic(fd); got != unix.PROC_SUPER_MAGIC || err != nil {
				t.Errorf("got %#x, %v; want %#x", got, err, unix.PROC_SUPER_MAGIC)
			}
		})
	}
	if got, err := sys.FSMagic(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("of nothing got %#x, %v; want EBADF", got, err)
	}
}

func TestProjectQuotaElsewhere(t *testing.T) {
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	if counts, holds, err := sys.ProjectQuota(int(proc.Fd())); err == nil {
		t.Errorf("of /proc got %t, %t; want an error", counts, holds)
	}
}

func TestProgramsOfNoLength(t *testing.T) {
	runtime.LockOSThread() // whose it is
	defer runtime.UnlockOSThread()
	before := noNewPrivs(t)
	for name, program := range map[string][]byte{
		"nothing": {}, "half an instruction": make([]byte, 4), "more than a length can say": make([]byte, 8<<16),
	} {
		if err := sys.LoadFilter(program); err == nil || !strings.Contains(err.Error(), "want a multiple") {
			t.Errorf("%s: LoadFilter = %v, want a refusal", name, err)
		}
	}
	if fd, err := sys.LoadCgroupSKB(make([]byte, 12)); err == nil || !strings.Contains(err.Error(), "want a multiple") {
		t.Errorf("LoadCgroupSKB = %d, %v; want a refusal", fd, err)
	}
	if after := noNewPrivs(t); after != before {
		t.Errorf("after refusals no_new_privs is %d, want %d", after, before)
	}
}

func noNewPrivs(t *testing.T) int {
	t.Helper()
	value, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
