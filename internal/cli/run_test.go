package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// TestReport: what becomes of each kind of error. A failure that is not told
// is the worst: the engine shows an empty message.
func TestReport(t *testing.T) {
	hook := exec.CommandContext(t.Context(), "false").Run() // an *exec.ExitError, with a method ExitCode of its own
	tests := map[string]struct {
		err    error
		status int
		told   string
	}{
		"success":          {err: nil, status: 0},
		"container's exit": {err: exitStatus(42), status: 42},
		"plain failure":    {err: errors.New("no luck"), status: 1, told: "no luck"},
		"exec failure":     {err: failure{errors.New("exec failed: x"), 255}, status: 255, told: "exec failed: x"},
		"failed hook":      {err: fmt.Errorf("error running hook #1: %w", hook), status: 1, told: "error running hook #1: exit status 1"},
		"usage, told":      {err: cli.NewExitError("No help topic for 'x'", 3), status: 3},
		"with a code":      {err: errcode.Wrap(errcode.BundleInvalid, "read", errors.New("bad")), status: 1, told: "read: bad [sandbox.bundle_invalid]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			logrus.SetOutput(&log)
			logrus.SetFormatter(&logrus.JSONFormatter{})
			t.Cleanup(func() { logrus.SetOutput(os.Stderr) })
			stderr, err := os.OpenFile(filepath.Join(t.TempDir(), "stderr"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			c := &command{env: Env{Err: stderr}}
			if got := c.report(tt.err); got != tt.status {
				t.Errorf("got status %d, want %d", got, tt.status)
			}
			printed, _ := os.ReadFile(stderr.Name())
			if got := strings.TrimSpace(string(printed)); got != tt.told {
				t.Errorf("got %q on stderr, want %q", got, tt.told)
			}
			if tt.told != "" && !strings.Contains(log.String(), tt.told) {
				t.Errorf("got %q in the log, want %q", log.String(), tt.told)
			}
			if code := errcode.Of(tt.err); code != "" && !strings.Contains(log.String(), `"code":"`+string(code)+`"`) {
				t.Errorf("got %q in the log, want the code as a field", log.String())
			}
		})
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]int{"": 15, "KILL": 9, "kill": 9, "SIGUSR1": 10, "34": 34, "RTMIN": 0, "nope": 0, "-x": 0} {
		got, err := parseSignal(in)
		if int(got) != want || (err != nil) != (want == 0) {
			t.Errorf("%q: got %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestArity(t *testing.T) {
	tests := map[string]struct {
		arity
		n    int
		want string
	}{
		"exact":          {exactly(1), 1, ""},
		"one too many":   {exactly(1), 2, `"x" requires exactly 1 argument(s)`},
		"none, want one": {exactly(1), 0, `"x" requires exactly 1 argument(s)`},
		"at least":       {atLeastOne, 5, ""},
		"too few":        {atLeastOne, 0, `"x" requires a minimum of 1 argument(s)`},
		"above the most": {arity{1, 2}, 3, `"x" requires a maximum of 2 argument(s)`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.check("x", tt.n)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
