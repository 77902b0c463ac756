//go:build engines

package engines

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sage-sandbox/sage/integration/harness"
)

const (
	busybox    = "sage.test/busybox:1"
	pauseImage = "sage.test/pause:1"
)

// importImages gives containerd the images, in the ring's own namespace and
// in the one that CRI insists on.
func (r *ring) importImages() error {
	rootfs, err := os.ReadFile(rootfsTar())
	if err != nil {
		return fmt.Errorf("the ring needs a root file system (make peers): %w", err)
	}
	return errors.Join(
		r.importImage(r.name, busybox, rootfs, []string{"sh"}),
		r.importImage("k8s.io", busybox, rootfs, []string{"sh"}),
		r.importImage("k8s.io", pauseImage, rootfs, []string{"sleep", "1000000"}),
	)
}

func rootfsTar() string { return filepath.Join(cacheDir(), "rootfs", "busybox.tar") }

func (r *ring) importImage(namespace, name string, rootfs []byte, cmd []string) error {
	archive, err := harness.ImageArchive(name, rootfs, cmd)
	if err != nil {
		return err
	}
	load := r.program("ctr", "--address", r.containerdSocket(), "--namespace", namespace,
		"images", "import", "--snapshotter", "overlayfs", "-")
	load.Stdin = bytes.NewReader(archive)
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w: %s", name, err, out)
	}
	return nil
}

// importDockerImage brings the tree to Docker as a user would.
func (r *ring) importDockerImage() error {
	load := r.program("docker", "--host", "unix://"+r.dockerSocket(),
		"import", "--change", `CMD ["sh"]`, rootfsTar(), busybox)
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}
