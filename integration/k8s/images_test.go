//go:build k8s

package k8s

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sage-sandbox/sage/integration/harness"
)

// importImages is for want of a registry; what pulls an image is not sage.
func (n *node) importImages() error {
	rootfs, err := os.ReadFile(filepath.Join(n.cache, "rootfs", "busybox.tar"))
	if err != nil {
		return fmt.Errorf(`%w: run "make rootfs"`, err)
	}
	ready := func() error { return n.command(context.Background(), "ctr", "version").Run() }
	if err := n.await("containerd", ready); err != nil {
		return err
	}
	return errors.Join(
		n.importImage(busybox, rootfs, "sh"),
		n.importImage(pauseImage, rootfs, "sleep", "1000000"),
	)
}

func (n *node) importImage(name string, rootfs []byte, command ...string) error {
	archive, err := harness.ImageArchive(name, rootfs, command)
	if err != nil {
		return err
	}
	load := n.command(context.Background(), "ctr", "--namespace", "k8s.io", "images", "import", "-")
	load.Stdin = bytes.NewReader(archive)
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w: %s", name, err, out)
	}
	return nil
}
