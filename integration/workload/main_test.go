//go:build kernel

package workload

import (
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m, harness.Root|harness.Mounts) }
