package runtime

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/opencontainers/runc/libcontainer"
)

func TestListenFDs(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	tests := map[string]struct {
		pid, fds string
		want     int
	}{
		"none":          {},
		"ours":          {self, "2", 2},
		"another's":     {"1", "2", 0},
		"negative":      {self, "-1", 0},
		"not a number":  {self, "x", 0},
		"pid is a word": {"x", "2", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"LISTEN_PID": tt.pid, "LISTEN_FDS": tt.fds}
			if got := listenFDs(func(name string) string { return env[name] }); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestInheritRefusesOurOwn: a number that the caller did not pass can be that
// of a file we opened ourselves.
func TestInheritRefusesOurOwn(t *testing.T) {
	log, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := inherited(int(log.Fd())); err == nil {
		t.Error("a file of ours was taken for the caller's")
	}
	if err := inherited(0); err != nil {
		t.Errorf("standard input: %v", err)
	}
	if err := inherit(&libcontainer.Process{}, 0, 1000); err == nil {
		t.Error("got no error for a thousand descriptors that nobody passed")
	}
}
