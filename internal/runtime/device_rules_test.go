package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"
)

func rules() []*devices.Rule {
	return []*devices.Rule{
		{Type: devices.WildcardDevice, Major: devices.Wildcard, Minor: devices.Wildcard, Permissions: "rwm"},
		{Type: devices.CharDevice, Major: 1, Minor: 3, Permissions: "rw", Allow: true},
		{Type: devices.CharDevice, Major: 136, Minor: devices.Wildcard, Permissions: "rw", Allow: true},
		{Type: devices.CharDevice, Major: devices.Wildcard, Minor: devices.Wildcard, Permissions: "m", Allow: true},
		{Type: devices.CharDevice, Major: 10, Minor: 200, Permissions: "rwm", Allow: true},
	}
}

func TestOnlyDevices(t *testing.T) {
	r := &cgroups.Resources{Devices: rules()}
	onlyDevices(r, 3)
	if diff := cmp.Diff(rules()[:4], r.Devices); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestCheckDevices is the read-back of the device cgroup.
func TestCheckDevices(t *testing.T) {
	tests := map[string]bool{
		"c 1:3 rw\nc 136:* rw\nc *:* m\n": true,
		"c 1:3 r\n":                       true,
		"":                                true,
		"a *:* rwm\n":                     false, // nothing was written
		"c 1:3 rwm\n":                     false,
		"c 10:200 rwm\n":                  false,
		"c *:* rm\n":                      false,
		"b *:* m\n":                       false,
		"nonsense\n":                      false,
	}
	for list, want := range tests {
		t.Run(strings.TrimSpace(list), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "devices.list"), []byte(list), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := checkDevices(map[string]string{"devices": dir}, rules()[:4]); (err == nil) != want {
				t.Errorf("got %v, want it to be as the rules: %v", err, want)
			}
		})
	}
}
