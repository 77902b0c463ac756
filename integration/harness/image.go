package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
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

// ImageArchive makes an OCI image of one layer, as a tar file that containerd
// can import, without any engine's help: containerd must be testable where
// Docker is not. The layer is a plain tar file.
func ImageArchive(name string, rootfs []byte, cmd []string) ([]byte, error) {
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
