package runtime

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenManager stands for the service manager: it reads datagrams, and closes
// the pipe that comes with a barrier as systemd does.
func listenManager(t *testing.T) (path string, messages chan string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "manager.sock")
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	messages = make(chan string, 8)
	done := make(chan struct{})
	t.Cleanup(func() { sock.Close(); <-done })
	go func() {
		defer close(done)
		buf, oob := make([]byte, 256), make([]byte, 64)
		for {
			n, oobn, _, _, err := sock.ReadMsgUnix(buf, oob)
			if err != nil {
				return
			}
			messages <- string(buf[:n])
			controls, _ := unix.ParseSocketControlMessage(oob[:oobn])
			for i := range controls {
				fds, _ := unix.ParseUnixRights(&controls[i])
				for _, fd := range fds {
					unix.Close(fd)
				}
			}
		}
	}()
	return path, messages
}

func boundNotifier(t *testing.T, host string) *notifier {
	t.Helper()
	n := newNotifier(t.TempDir(), host)
	if err := n.mkdir(); err != nil {
		t.Fatal(err)
	}
	if err := n.bind(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.sock.Close() })
	return n
}

func TestNotifierRelay(t *testing.T) {
	host, messages := listenManager(t)
	n := boundNotifier(t, host)
	container, err := net.Dial("unixgram", n.path)
	if err != nil {
		t.Fatal(err)
	}
	defer container.Close()
	for _, m := range []string{"STATUS=loading", "STATUS=done\nREADY=1\n"} {
		if _, err := container.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.relay(os.Getpid(), 42); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"READY=1\n", "MAINPID=42\n", "BARRIER=1"} {
		if got := <-messages; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNotifierGivesUp: a container that dies before it is ready must not keep
// the start command for ever.
func TestNotifierGivesUp(t *testing.T) {
	host, messages := listenManager(t)
	n := boundNotifier(t, host)
	child := exec.CommandContext(t.Context(), "true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	if err := n.relay(child.Process.Pid, 1); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(started); took > 5*time.Second || len(messages) != 0 {
		t.Errorf("took %v and sent %d messages, want neither", took, len(messages))
	}
}

func TestWritePidFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pid")
	for _, pid := range []int{12, 34567} { // the second replaces the first
		if err := writePidFile(path, pid); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != strconv.Itoa(pid) {
			t.Errorf("got %q, want %d", got, pid)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writePidFile(filepath.Join(dir, "taken"), 1); err == nil {
		t.Error("got no error where a directory is in the way")
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 {
		t.Errorf("got %v, want no temporary file left", entries)
	}
}

func TestReceiveFile(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	if err := unix.Sendmsg(pair[1], []byte("/dev/pts/0"), unix.UnixRights(int(theirs.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	got, err := receiveFile(ours)
	if err != nil || got.Name() != "/dev/pts/0" {
		t.Fatalf("got %v, %v", got, err)
	}
	got.Close()
	if _, err := theirs.Write([]byte("no descriptor")); err != nil {
		t.Fatal(err)
	}
	if _, err := receiveFile(ours); err == nil {
		t.Error("got no error without a descriptor")
	}
}
