//go:build kernel

package policy

import (
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// TestAttack10: a filter by family alone lets through what is a packet socket by
// another name, and protocols that only look like TCP and UDP. They are tried
// where the internet families are open.
//
// Proves: S-106.
func TestAttack10(t *testing.T) {
	wants := map[string]string{
		"socket inet SOCK_PACKET":              "EPERM",
		"socket inet SOCK_PACKET, a bit above": "EPERM",
		"socket inet raw icmp":                 "EPERM",
		"socket inet raw, a bit above":         "EPERM",
		"socket inet smc":                      "EPROTONOSUPPORT",
		"socket inet sctp":                     "EPROTONOSUPPORT",
		"socket inet sctp sequence":            "EPROTONOSUPPORT",
		"socket inet dccp":                     "EPROTONOSUPPORT",
		"socket inet l2tp":                     "EPROTONOSUPPORT",
		"socket inet udplite":                  "EPROTONOSUPPORT",
		"socket inet ping":                     "EPROTONOSUPPORT",
		"socket packet raw":                    "EAFNOSUPPORT",
		"socket packet SOCK_PACKET":            "EAFNOSUPPORT",
		"socket xdp":                           "EAFNOSUPPORT",
		"socket vsock":                         "EAFNOSUPPORT",
		"socket inet mptcp":                    "ok", // It is TCP, and falls back to it.
		"socket inet tcp":                      "ok",
		"socket inet6 udp":                     "ok",
	}
	for _, p := range profiles[1:] {
		t.Run(string(p.name), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, p.host)
			id := harness.NewID()
			r.Must(t, "run", "--detach", "--bundle", victimBundle(t, victimRoot(t), "sleep", "1000").Dir, id)
			for attempt, want := range wants {
				if res := r.Run(t, "exec", id, expect.Program, "try", "exec", attempt); res.Stdout != want {
					t.Errorf("%s: got %s, want %s", attempt, res, want)
				}
			}
		})
	}
}
