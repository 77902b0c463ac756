//go:build kernel

package clients

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // what Maven compares
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// registries serve one package called hello for each kind of client, as its
// public registry would.
func registries(t *testing.T, mux *http.ServeMux) {
	t.Helper()
	for _, files := range []map[string][]byte{pythonIndex(t), npmRegistry(t), debianRepository(t), goProxy(t), cratesRegistry(t), mavenRepository()} {
		for path, content := range files {
			mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", contentType(path))
				// Some name the place of a package by its whole URL.
				_, _ = w.Write(bytes.ReplaceAll(content, []byte("HOST"), []byte(r.Host)))
			})
		}
	}
}

func contentType(path string) string {
	switch {
	case strings.HasSuffix(path, "/"):
		return "text/html"
	case strings.HasSuffix(path, ".json"), path == "/npm/hello":
		return "application/json"
	}
	return "application/octet-stream"
}

// pythonIndex is of PEP 503.
func pythonIndex(t *testing.T) map[string][]byte {
	t.Helper()
	const wheel = "hello-1.0-py3-none-any.whl"
	content := zipOf(t, [][2]string{
		{"hello.py", "said = 'hello'\n"},
		{"hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n"},
		{"hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n"},
	})
	return map[string][]byte{
		"/simple/hello/":   fmt.Appendf(nil, `<a href="https://HOST/wheels/%s#sha256=%s">%[1]s</a>`, wheel, hexOf(content)),
		"/wheels/" + wheel: content,
	}
}

func npmRegistry(t *testing.T) map[string][]byte {
	t.Helper()
	content := gzipOf(t, tarOf(t, [][2]string{
		{"package/package.json", `{"name": "hello", "version": "1.0.0", "main": "index.js"}`},
		{"package/index.js", "module.exports = 'hello'\n"},
	}))
	sum := sha512.Sum512(content)
	return map[string][]byte{
		"/npm/hello": fmt.Appendf(nil, `{"name": "hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0":
			{"name": "hello", "version": "1.0.0", "dist": {"tarball": "https://HOST/npm/hello-1.0.0.tgz", "integrity": "sha512-%s"}}}}`,
			base64.StdEncoding.EncodeToString(sum[:])),
		"/npm/hello-1.0.0.tgz": content,
	}
}

// debianRepository is a flat one: what apt verifies here is the server.
func debianRepository(t *testing.T) map[string][]byte {
	t.Helper()
	const control = "Package: hello-sage\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: a file\n"
	content := arOf([][2]string{
		{"debian-binary", "2.0\n"},
		{"control.tar.gz", string(gzipOf(t, tarOf(t, [][2]string{{"./control", control}})))},
		{"data.tar.gz", string(gzipOf(t, tarOf(t, [][2]string{{"./usr/share/hello-sage", "hello\n"}})))},
	})
	packages := fmt.Sprintf("%sFilename: ./hello-sage.deb\nSize: %d\nSHA256: %s\n", control, len(content), hexOf(content))
	release := fmt.Sprintf("Suite: test\nDate: %s\nSHA256:\n %s %d Packages\n",
		time.Now().Add(-time.Hour).UTC().Format(time.RFC1123), hexOf([]byte(packages)), len(packages))
	return map[string][]byte{
		"/debian/Release": []byte(release), "/debian/Packages": []byte(packages), "/debian/hello-sage.deb": content,
	}
}

func goProxy(t *testing.T) map[string][]byte {
	t.Helper()
	const at, module = "/goproxy/hello.test/hello/@v/", "module hello.test/hello\n"
	const prefix = "hello.test/hello@v1.0.0/"
	return map[string][]byte{
		at + "list":        []byte("v1.0.0\n"),
		at + "v1.0.0.info": []byte(`{"Version": "v1.0.0"}`),
		at + "v1.0.0.mod":  []byte(module),
		at + "v1.0.0.zip":  zipOf(t, [][2]string{{prefix + "go.mod", module}, {prefix + "hello.go", "package hello\n"}}),
	}
}

// cratesRegistry is a sparse one (RFC 2789).
func cratesRegistry(t *testing.T) map[string][]byte {
	t.Helper()
	content := gzipOf(t, tarOf(t, [][2]string{
		{"hello-1.0.0/Cargo.toml", "[package]\nname = \"hello\"\nversion = \"1.0.0\"\n"},
		{"hello-1.0.0/src/lib.rs", "pub fn hello() {}\n"},
	}))
	return map[string][]byte{
		"/crates/config.json":          []byte(`{"dl": "https://HOST/crates/dl/{crate}-{version}.crate"}`),
		"/crates/he/ll/hello":          fmt.Appendf(nil, `{"name": "hello", "vers": "1.0.0", "deps": [], "cksum": "%s", "features": {}, "yanked": false}`, hexOf(content)),
		"/crates/dl/hello-1.0.0.crate": content,
	}
}

// mavenRepository has a parent of a project, and versions for it to import:
// plugins, which every artifact is fetched by, are too many to make.
func mavenRepository() map[string][]byte {
	files := map[string][]byte{}
	for _, name := range []string{"parent", "versions"} {
		pom := fmt.Appendf(nil, `<project><modelVersion>4.0.0</modelVersion><groupId>test.hello</groupId>
			<artifactId>%s</artifactId><version>1.0</version><packaging>pom</packaging></project>`, name)
		sum := sha1.Sum(pom) //nolint:gosec // what Maven compares
		path := "/maven/test/hello/" + name + "/1.0/" + name + "-1.0.pom"
		files[path], files[path+".sha1"] = pom, []byte(hex.EncodeToString(sum[:]))
	}
	return files
}

func hexOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// The archives: files are pairs of name and content.

func zipOf(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		into, err := w.Create(f[0])
		if err == nil {
			_, err = into.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarOf(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
		if err == nil {
			_, err = w.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// arOf is the format of a .deb, ar(5).
func arOf(files [][2]string) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", f[0], 0, 0, 0, "100644", len(f[1]), f[1])
		if len(f[1])%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
