package seccomp

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestNative compares with constants that the compiler knows, so that parsing,
// as TestNumbers does, is not all there is. They are Linux's only.
func TestNative(t *testing.T) {
	if unix.SYS_LISTNS != maxCall || unix.SYS_RSEQ_SLICE_YIELD != maxCall+1 {
		t.Errorf("listns is %d and its successor %d, want %d and one more", unix.SYS_LISTNS, unix.SYS_RSEQ_SLICE_YIELD, maxCall)
	}
	if archTokens[AMD64] != unix.AUDIT_ARCH_X86_64 || archTokens[ARM64] != unix.AUDIT_ARCH_AARCH64 {
		t.Errorf("architectures: got %#x", archTokens)
	}
	errno := func(e syscall.Errno) Action { return unix.SECCOMP_RET_ERRNO | Action(e) }
	want := map[string]Action{
		"allow": unix.SECCOMP_RET_ALLOW, "kill_process": unix.SECCOMP_RET_KILL_PROCESS,
		"EPERM": errno(unix.EPERM), "ENOENT": errno(unix.ENOENT), "ENOSYS": errno(unix.ENOSYS),
		"ENOPROTOOPT": errno(unix.ENOPROTOOPT), "EPROTONOSUPPORT": errno(unix.EPROTONOSUPPORT),
		"EOPNOTSUPP": errno(unix.EOPNOTSUPP), "EAFNOSUPPORT": errno(unix.EAFNOSUPPORT),
	}
	got := map[string]Action{}
	for action, name := range actionNames {
		got[name] = action
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-kernel's +ours):\n%s", diff)
	}
	if maxInstructions != unix.BPF_MAXINSNS {
		t.Errorf("at most %d instructions, want %d", maxInstructions, unix.BPF_MAXINSNS)
	}
}
