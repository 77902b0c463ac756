//go:build engines

package engines

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const (
	busybox    = "sage.test/busybox:1"
	pauseImage = "sage.test/pause:1"
)

// descriptor, index, manifest and imageConfig are the few fields of the OCI
// image format that an importer needs.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

type imageConfig struct {
	Architecture string         `json:"architecture"`
	OS           string         `json:"os"`
	Config       map[string]any `json:"config"`
	RootFS       map[string]any `json:"rootfs"`
}

// layout is an OCI image layout as a tar file.
type layout struct {
	buf bytes.Buffer
	tar *tar.Writer
}

// imageArchive makes an image of one layer without any engine's help, since
// containerd must be testable where Docker is not.
func imageArchive(name string, rootfs []byte, cmd []string) ([]byte, error) {
	l := &layout{}
	l.tar = tar.NewWriter(&l.buf)
	layer, err := l.blob("application/vnd.oci.image.layer.v1.tar", rootfs)
	if err != nil {
		return nil, err
	}
	config, err := l.document("application/vnd.oci.image.config.v1+json", imageConfig{
		Architecture: runtime.GOARCH, OS: "linux",
		Config: map[string]any{"Cmd": cmd, "Env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}},
		RootFS: map[string]any{"type": "layers", "diff_ids": []string{layer.Digest}},
	})
	if err != nil {
		return nil, err
	}
	man := manifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.manifest.v1+json", Config: &config, Layers: []descriptor{layer}}
	return l.finish(name, man)
}

// finish adds the manifest and what leads to it.
func (l *layout) finish(name string, man manifest) ([]byte, error) {
	desc, err := l.document(man.MediaType, man)
	if err != nil {
		return nil, err
	}
	desc.Annotations = map[string]string{"io.containerd.image.name": name}
	index, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json", Manifests: []descriptor{desc}})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		l.file("index.json", index),
		l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		l.tar.Close(),
	)
	return l.buf.Bytes(), err
}

func (l *layout) document(kind string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(kind, text)
}

func (l *layout) blob(kind string, content []byte) (descriptor, error) {
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	d := descriptor{MediaType: kind, Digest: "sha256:" + sum, Size: len(content)}
	return d, l.file("blobs/sha256/"+sum, content)
}

func (l *layout) file(name string, content []byte) error {
	head := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}
	if err := l.tar.WriteHeader(head); err != nil {
		return err
	}
	_, err := l.tar.Write(content)
	return err
}

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
	archive, err := imageArchive(name, rootfs, cmd)
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
