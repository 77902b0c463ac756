//go:build engines

package engines

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// network is a CNI configuration of a bridge. It is written and not made by
// "nerdctl network create", which wants the tuning plugin that no test needs;
// CRI has no call for it at all. The label keeps nerdctl from making a default
// network, with that plugin, before it looks at this one.
const network = `{
  "cniVersion": "1.0.0", "name": %q,
  "nerdctlLabels": {"nerdctl/default-network": "true"},
  "plugins": [
    {"type": "bridge", "bridge": "%[1]s0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}},
    {"type": "firewall"}
  ]
}`

// writeNetwork may be called again: a client that reads meanwhile sees the same.
func writeNetwork(t *testing.T, dir, name, subnet string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Appendf(nil, network, name, subnet)
	draft := filepath.Join(dir, newID())
	path := filepath.Join(dir, "10-"+name+".conflist")
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(draft, path); err != nil {
		t.Fatal(err)
	}
}
