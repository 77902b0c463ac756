//go:build kernel

package egress

import (
	"testing"

	"github.com/sage-sandbox/sage/integration/client"
	"github.com/sage-sandbox/sage/integration/harness"
)

func TestMain(m *testing.M) {
	if client.Main() {
		return
	}
	harness.Main(m, harness.Root|harness.Mounts)
}
