//go:build kernel

package egress

import (
	"testing"

	"github.com/sage-sandbox/sage/integration/caller"
	"github.com/sage-sandbox/sage/integration/harness"
)

func TestMain(m *testing.M) {
	if caller.Main() {
		return
	}
	harness.Main(m, harness.Root|harness.Mounts)
}
