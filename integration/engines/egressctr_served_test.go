//go:build engines

package engines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// served is a container that sage has a record of, and what serves it.
type served struct {
	root, id  string
	Port      int
	DialsFrom string `json:"dials_from"`
	Bridge    *struct{ Pid int }
	Proxy     *struct{ Pid int }
	group     string // of the two, below /sys/fs/cgroup
}

// servedUnder reads the record of a container with a proxy; root is the one that
// its shim gives to sage.
func servedUnder(t *testing.T, root, id string) served {
	t.Helper()
	s := served{root: root, id: id}
	data, err := os.ReadFile(filepath.Join(root, id, "sage-network.json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil || s.Bridge == nil || s.Proxy == nil {
		t.Fatalf("record of the network: got %v, %s; want a bridge and a proxy", err, data)
	}
	s.group = helperGroup(t, s.Proxy.Pid)
	return s
}

// helperGroup is the cgroup of version 2 of a process.
func helperGroup(t *testing.T, pid int) string {
	t.Helper()
	for line := range strings.Lines(contentOf(fmt.Sprintf("/proc/%d/cgroup", pid))) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	t.Fatalf("process %d: it is in no cgroup of version 2", pid)
	return ""
}

// attested asks the kernel for all that was to be enforced.
func (s served) attested(t *testing.T) {
	t.Helper()
	r, err := finish(theRing.program(wayOut.wrapper(), "--root", s.root, "attest", s.id))
	if err != nil {
		t.Fatal(err)
	}
	r.want(t, 0, "network guard", "network bridge", "network proxy")
}

// processes are those of the two that live.
func (s served) processes() string {
	return existing(fmt.Sprintf("/proc/%d/cwd", s.Bridge.Pid), fmt.Sprintf("/proc/%d/cwd", s.Proxy.Pid))
}

// gone waits until nothing is left of what served the container.
func (s served) gone(t *testing.T) {
	t.Helper()
	eventually(t, "processes that served "+s.id, "none", s.processes)
	eventually(t, "files of "+s.id, "none", func() string {
		return existing("/sys/fs/cgroup/unified"+s.group, "/sys/fs/cgroup"+s.group, filepath.Join(s.root, s.id))
	})
}

// existing are those of the paths that are there, or "none".
func existing(paths ...string) string {
	var left []string
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			left = append(left, path)
		}
	}
	return cmp.Or(strings.Join(left, " "), "none")
}

// wantAudit waits for a line of the container's audit that holds all phrases: of
// a connection there is one when it has ended for the proxy, too.
func wantAudit(t *testing.T, id string, phrases ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q in the audit of %s", phrases, id), "there", func() string {
		text := contentOf(filepath.Join(auditDir, id+".egress.jsonl"))
		for line := range strings.Lines(text) {
			if !slices.ContainsFunc(phrases, func(p string) bool { return !strings.Contains(line, p) }) {
				return "there"
			}
		}
		return text
	})
}
