package harness

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// CurlImage is the name of an image that has curl, for everybody who has a
// registry; [CurlTree] is for tests, which have none.
const CurlImage = "docker.io/curlimages/curl:latest"

// CurlTree adds this machine's curl, with its libraries, to a root tree, and a
// a certificate that it believes, such as [WorldCA]. Both trees are plain tar
// files.
func CurlTree(rootfs, ca []byte) ([]byte, error) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		return nil, fmt.Errorf(`%w: install Debian's "curl"`, err)
	}
	out, err := exec.Command("ldd", curl).Output()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of curl: %w", err)
	}
	files := map[string]string{"usr/bin/curl": curl}
	for word := range strings.FieldsSeq(string(out)) {
		if name, isPath := strings.CutPrefix(word, "/"); isPath {
			files[name] = word
		}
	}
	t, err := extend(rootfs)
	if err != nil {
		return nil, err
	}
	for name, path := range files {
		content, err := os.ReadFile(path)
		if err := errors.Join(err, t.add(name, 0o755, content)); err != nil {
			return nil, err
		}
	}
	// Where Debian's curl looks.
	err = errors.Join(t.add("etc/ssl/certs/ca-certificates.crt", 0o644, ca), t.w.Close())
	return t.buf.Bytes(), err
}

// tree is a tar file that grows.
type tree struct {
	buf bytes.Buffer
	w   *tar.Writer
}

// extend starts one with what is in another, which may have an end.
func extend(from []byte) (*tree, error) {
	t := &tree{}
	t.w = tar.NewWriter(&t.buf)
	for r := tar.NewReader(bytes.NewReader(from)); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err == nil {
			err = t.w.WriteHeader(head)
		}
		if err == nil {
			_, err = io.Copy(t.w, r) //nolint:gosec // a tree of our own making
		}
		if err != nil {
			return nil, err
		}
	}
}

func (t *tree) add(name string, mode int64, content []byte) error {
	err := t.w.WriteHeader(&tar.Header{Name: "./" + name, Mode: mode, Size: int64(len(content)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = t.w.Write(content)
	}
	return err
}
