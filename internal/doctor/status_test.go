package doctor

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/sys"
)

func testdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParseStatus(t *testing.T) {
	got, err := parseStatus(testdata(t, "status-6.18"))
	if err != nil {
		t.Fatal(err)
	}
	want := status{
		noNewPrivs: 1, seccomp: 2, filters: 2,
		inheritable: 1, permitted: 1, effective: 1, bounding: 0x1_0000_0001, ambient: 1,
		uid: 1001, gid: 1002, groups: []uint32{5, 7, 1000},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(status{})); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestParseStatusRefuses changes one thing of a good file.
func TestParseStatusRefuses(t *testing.T) {
	good := testdata(t, "status-6.18")
	tests := []struct{ name, old, with, want string }{
		{"before Linux 5.9", "Seccomp_filters:\t2\n", "", "Seccomp_filters: this kernel does not report it"},
		{"without seccomp", "Seccomp:\t2\n", "", "Seccomp: this kernel does not report it"},
		{"without no_new_privs", "NoNewPrivs:\t1\n", "", "NoNewPrivs: this kernel does not report it"},
		{"without a set", "CapAmb:\t0000000000000001\n", "", "CapAmb: this kernel does not report it"},
		{"without groups", "Groups:\t5 7 1000 \n", "", "Groups: this kernel does not report it"},
		{"count is empty", "Seccomp_filters:\t2", "Seccomp_filters:\t", "Seccomp_filters: strconv.Atoi"},
		{"field twice", "Seccomp:\t2\n", "Seccomp:\t0\nSeccomp:\t2\n", "Seccomp: is there twice"},
		{"name with a line end", "Name:\tsleep\n", "Name:\ta\nSeccomp:\t0\n", "Seccomp: is there twice"},
		{"name with a line", "Name:\tsleep\n", "Name:\ta\nb\n", `line "b\n": want a name and a colon`},
		{"effective id differs", "Uid:\t1001\t1001\t1001\t1001", "Uid:\t1001\t0\t1001\t1001", "Uid: \"1001\\t0\\t1001\\t1001\": real, effective"},
		{"saved id differs", "Gid:\t1002\t1002\t1002\t1002", "Gid:\t1002\t1002\t0\t1002", "Gid: \"1002\\t1002\\t0\\t1002\": real, effective"},
		{"three ids", "Uid:\t1001\t1001\t1001\t1001", "Uid:\t1001\t1001\t1001", "want four ids"},
		{"negative id", "Gid:\t1002\t1002\t1002\t1002", "Gid:\t-1\t-1\t-1\t-1", "Gid: strconv.ParseUint"},
		{"group too large", "Groups:\t5 7 1000 ", "Groups:\t4294967296", "Groups: strconv.ParseUint"},
		{"set is not hexadecimal", "CapEff:\t0000000000000001", "CapEff:\tall", "CapEff: strconv.ParseUint"},
		{"zombie", "State:\tS (sleeping)", "State:\tZ (zombie)", "has ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.old, tt.with, 1)
			if text == good {
				t.Fatalf("the file has no %q", tt.old)
			}
			got, err := parseStatus(text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", got, err, tt.want)
			}
		})
	}
}

// TestName: a process may call itself what it likes, in a file of lines.
func TestName(t *testing.T) {
	for _, name := range []string{"\nSeccomp:\t9", "a\nUid:\t0", "x\\\nSeccomp:\t9", ":", "\xff\xfe:\n", "(\n) 1 2", "\t: \n:\n"} {
		sys.OnDyingThread(func() {
			if err := os.WriteFile("/proc/thread-self/comm", []byte(name), 0); err != nil {
				t.Error(err)
				return
			}
			got, err := readStatus(os.DirFS("/proc/thread-self"))
			if err != nil || got.seccomp == 9 || got.uid != uint32(os.Getuid()) {
				t.Errorf("named %q: got %+v, %v", name, got, err)
			}
			if isKernelThread(os.DirFS("/proc/thread-self")) {
				t.Errorf("named %q: taken for a thread of the kernel", name)
			}
		})
	}
}

func TestCapNames(t *testing.T) {
	tests := []struct {
		name string
		set  uint64
		want []string
	}{
		{"none", 0, []string{}},
		{"sorted by name", 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_BPF, []string{"CAP_BPF", "CAP_SYS_ADMIN"}},
		{"last known", 1 << unix.CAP_LAST_CAP, []string{"CAP_CHECKPOINT_RESTORE"}},
		{"newer than the table", 1<<63 | 1, []string{"CAP_63", "CAP_CHOWN"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, capNames(tt.set)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
	// Each of every ten at its place, and none left out.
	for bit, want := range map[int]string{
		unix.CAP_CHOWN: "CHOWN", unix.CAP_NET_BIND_SERVICE: "NET_BIND_SERVICE", unix.CAP_SYS_PTRACE: "SYS_PTRACE",
		unix.CAP_SYS_PACCT: "SYS_PACCT", unix.CAP_AUDIT_CONTROL: "AUDIT_CONTROL", unix.CAP_BPF: "BPF",
		unix.CAP_CHECKPOINT_RESTORE: "CHECKPOINT_RESTORE", unix.CAP_SETUID: "SETUID", unix.CAP_MKNOD: "MKNOD",
	} {
		if capabilities[bit] != want {
			t.Errorf("capability %d is %s, want %s", bit, capabilities[bit], want)
		}
	}
	if got, want := len(capabilities), unix.CAP_LAST_CAP+1; got != want {
		t.Errorf("%d capabilities, want %d", got, want)
	}
}

func TestCollectNobody(t *testing.T) {
	got, err := Collect(1 << 22) // beyond the largest that pid_max can be
	if !errors.Is(err, ErrEnded) {
		t.Errorf("got %v, %v; want %v", got, err, ErrEnded)
	}
}
