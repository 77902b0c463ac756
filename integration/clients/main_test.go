//go:build kernel

package clients

import (
	"os"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fetchVerb {
		fetch(os.Args[2])
		return
	}
	harness.Main(m, harness.Root|harness.Mounts|harness.Network)
}
