//go:build k8s

package k8s

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// The node is started once: in emulation that takes longer than any test.
var theNode *node

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if err := inGuest(); err != nil {
		fmt.Fprintln(os.Stderr, "k8s:", err)
		return 1
	}
	allowWaiting()
	n, err := startNode()
	defer n.stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "k8s:", err)
		n.keepLogs()
		return 1
	}
	theNode = n
	code := m.Run()
	if code != 0 {
		n.keepLogs()
	}
	return code
}

// A node takes the machine's fixed places: /etc/sage, /run/containerd,
// /var/lib/kubelet, the root of the cgroups.
func inGuest() error {
	if os.Getenv("SAGE_VM") == "" || os.Geteuid() != 0 {
		return errors.New(`this ring runs as root in a machine of its own: "make test-k8s"`)
	}
	return nil
}

// allowWaiting lets more tests run at once than there are processors: most of
// their time they wait for the kubelet.
func allowWaiting() {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(4))
	}
}
