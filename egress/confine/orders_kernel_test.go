//go:build kernel

package confine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// ordersFD is the first descriptor that a process inherits.
const ordersFD = 3

// obey is the child's part: it says what it was given, and writes into the first
// descriptor.
func obey() {
	err := Obey(ordersFD, Bridge, 64)
	if err != nil {
		fmt.Println("not confined:", err)
		os.Exit(3)
	}
	fmt.Println("confined")
	document, files, err := Receive(ordersFD, 100)
	if err != nil {
		fmt.Println("not told:", err)
		os.Exit(4)
	}
	fmt.Printf("told %s with %d\n", document, len(files))
	for _, fd := range files {
		_, _ = unix.Write(fd, []byte("given"))
	}
	os.Exit(0)
}

// launched is a child that has been told who it is to be.
func launched(t *testing.T, root string) (*exec.Cmd, *Orders, *bytes.Buffer) {
	t.Helper()
	cmd, out := exec.CommandContext(t.Context(), "/proc/self/exe", "obey"), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	orders, err := Launch(cmd, Identity{UID: user, GID: user, Root: root}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(orders.Close)
	return cmd, orders, out
}

// TestOrders gives a process that is confined a document and two descriptors.
//
// Proves: G-05.
func TestOrders(t *testing.T) {
	cmd, orders, out := launched(t, emptyRoot(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := orders.Give(map[string]int{"n": 7}, []*os.File{w, w}); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if err := cmd.Wait(); err != nil || out.String() != "confined\ntold {\"n\":7} with 2\n" {
		t.Errorf("saw %q, %v", out, err)
	}
	if got, err := io.ReadAll(r); string(got) != "givengiven" || err != nil {
		t.Errorf("saw %q, %v from the descriptors", got, err)
	}
}

// TestOrdersGone: a runtime that dies first leaves a process that ends.
//
// Proves: S-093.
func TestOrdersGone(t *testing.T) {
	cmd, orders, out := launched(t, emptyRoot(t))
	orders.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 4 || !strings.Contains(out.String(), "the runtime is gone") {
		t.Errorf("saw %q, %v", out, err)
	}
}

// TestOrdersDead: what died cannot be given anything, and no signal tells.
func TestOrdersDead(t *testing.T) {
	cmd, orders, out := launched(t, "/nowhere")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("saw %q, %v", out, err)
	}
	if err := orders.Give(1, nil); err == nil {
		t.Error("given to a process that has ended: saw no error")
	}
}

// TestOrdersTooLong: a document that is cut is none to whoever decodes it.
func TestOrdersTooLong(t *testing.T) {
	cmd, orders, out := launched(t, emptyRoot(t))
	if err := orders.Give(strings.Repeat("x", 1<<20), nil); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || len(out.String()) != len("confined\ntold  with 0\n")+100 {
		t.Errorf("saw %d bytes, %v", out.Len(), err)
	}
}

// TestObeyRefuses has what is no socket, and a message that says nobody, refused.
func TestObeyRefuses(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "{", "root": `{"uid":0,"gid":0,"root":"/"}`, "nobody": `{}`} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(pair[0], []byte(text)); err != nil {
			t.Fatal(err)
		}
		theirs := os.NewFile(uintptr(pair[1]), "orders")
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "obey")
		cmd.ExtraFiles = []*os.File{theirs}
		out, err := cmd.CombinedOutput()
		_ = theirs.Close()
		_ = unix.Close(pair[0])
		if cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("%s: saw %q, %v, want it not confined", name, out, err)
		}
	}
	if err := Obey(-1, Bridge, 64); errcode.Of(err) != errcode.EnforcementFailed {
		t.Errorf("no socket: saw %v", err)
	}
}

func TestPlaced(t *testing.T) {
	first, none := 1, -1
	if err := Placed([]int{20, 21}, &first, &none); err != nil || first != 21 || none != -1 {
		t.Errorf("saw %d, %d and %v, want 21, -1", first, none, err)
	}
	for _, bad := range []int{-2, 2, 1 << 40} {
		if err := Placed([]int{20, 21}, &bad); err == nil {
			t.Errorf("place %d of two: saw no error", bad)
		}
	}
}
