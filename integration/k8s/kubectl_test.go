//go:build k8s

package k8s

import (
	"context"
	"strings"
	"testing"
	"time"
)

// kubectl is what a user does; it has to succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := theNode.command(ctx, "kubectl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// eventually waits for something that the cluster gets to by itself; ok also
// says what is there instead.
func eventually(t *testing.T, want string, ok func() (saw string, done bool)) {
	t.Helper()
	saw, done := "", false
	for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if saw, done = ok(); done {
			return
		}
	}
	t.Fatalf("after four minutes: saw %s, want %s", saw, want)
}
