package spec_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

const minimal = `{"ociVersion":"1.3.0","process":{"cwd":"/","args":["true"]}}`

func TestParseBundle(t *testing.T) {
	tests := map[string]struct {
		in   string
		want string // part of the error, "" for none
	}{
		"minimal":           {in: minimal},
		"first release":     {in: strings.Replace(minimal, "1.3.0", "1.0.0-rc5-dev", 1)},
		"later minor":       {in: strings.Replace(minimal, "1.3.0", "1.99.0", 1)},
		"space around":      {in: "\n " + minimal + "\n"},
		"empty":             {in: "", want: "file is empty"},
		"blank":             {in: " \n\t", want: "file is empty"},
		"null":              {in: "null", want: "config cannot be null"},
		"not an object":     {in: `[1]`, want: "document: saw JSON array"},
		"cut off":           {in: minimal[:20], want: "not valid JSON at byte"},
		"second document":   {in: minimal + minimal, want: "not valid JSON at byte"},
		"no version":        {in: `{"process":{"cwd":"/","args":["a"]}}`, want: `ociVersion: saw ""`},
		"major 2":           {in: strings.Replace(minimal, "1.3.0", "2.0.0", 1), want: `ociVersion: saw "2.0.0"`},
		"version in words":  {in: strings.Replace(minimal, "1.3.0", "1.latest", 1), want: "ociVersion"},
		"no process":        {in: `{"ociVersion":"1.0.2"}`, want: "process property must not be empty"},
		"no args":           {in: `{"ociVersion":"1.0.2","process":{"cwd":"/"}}`, want: "args must not be empty"},
		"no cwd":            {in: `{"ociVersion":"1.0.2","process":{"args":["a"]}}`, want: "Cwd property must not be empty"},
		"relative cwd":      {in: `{"ociVersion":"1.0.2","process":{"args":["a"],"cwd":"x"}}`, want: "Cwd must be an absolute path"},
		"args of numbers":   {in: `{"ociVersion":"1.0.2","process":{"args":[1],"cwd":"/"}}`, want: "process.args: saw JSON number, want string"},
		"negative uid":      {in: `{"ociVersion":"1.0.2","process":{"user":{"uid":-1}}}`, want: "process.user.uid: saw JSON number, want uint32"},
		"deep nesting":      {in: `{"a":` + strings.Repeat("[", 100_000), want: "exceeded max depth"},
		"secret is not put": {in: `{"process":{"env":"TOKEN=hunter2"}}`, want: "process.env: saw JSON string, want []string"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := spec.ParseBundle(strings.NewReader(tt.in))
			if tt.want == "" {
				if err != nil || s == nil {
					t.Fatalf("got %v, %v, want a spec", s, err)
				}
				return
			}
			checkRefused(t, err, tt.want)
			if s != nil {
				t.Errorf("got a spec beside the error")
			}
		})
	}
}

func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %q", want)
	}
	if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "hunter2") {
		t.Errorf("got %q, want one line with %q", got, want)
	}
	if got := errcode.Of(err); got != errcode.BundleInvalid {
		t.Errorf("got code %q, want %q", got, errcode.BundleInvalid)
	}
}

// TestParseBundleBound holds the promise that memory stays bounded: the reader
// never ends, so only the limit can end the call.
func TestParseBundleBound(t *testing.T) {
	_, err := spec.ParseBundle(endless{})
	checkRefused(t, err, "file is larger than 16777216 bytes")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestParseProcess(t *testing.T) {
	p, err := spec.ParseProcess(strings.NewReader(`{"cwd":"/","args":["true"]}`))
	if err != nil || p.Args[0] != "true" {
		t.Fatalf("got %v, %v", p, err)
	}
	_, err = spec.ParseProcess(strings.NewReader(`null`))
	checkRefused(t, err, "process property must not be empty")
}

// FuzzParseBundle: no panic, and exactly one of spec and error.
func FuzzParseBundle(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(`{"ociVersion":"1.0.2","linux":{"resources":{"memory":{"limit":1e99}}}}`))
	f.Add([]byte(`{"process":{"rlimits":[{"type":"RLIMIT_CORE","hard":18446744073709551616}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := spec.ParseBundle(bytes.NewReader(data))
		if (s == nil) == (err == nil) {
			t.Errorf("got spec %v and error %v, want exactly one", s, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("error has more than one line: %q", err)
		}
	})
}

// TestParseBundleForeignParts: what is for another platform is read all the
// same, so that whoever judges the bundle sees it.
func TestParseBundleForeignParts(t *testing.T) {
	const head = `{"ociVersion":"1.2.0","process":{"cwd":"/","args":["x"]},`
	s, err := spec.ParseBundle(strings.NewReader(head + `"windows":{"layerFolders":["a"]},"VM":{"kernel":{"path":"/k"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Windows == nil || len(s.Windows.LayerFolders) != 1 || s.VM == nil || s.VM.Kernel.Path != "/k" || s.Solaris != nil {
		t.Errorf("windows %v, vm %v, solaris %v; want the first two as written", s.Windows, s.VM, s.Solaris)
	}
	_, err = spec.ParseBundle(strings.NewReader(head + `"zos":{"namespaces":7}}`))
	if err == nil || !strings.Contains(err.Error(), "zos: namespaces: saw JSON number") {
		t.Errorf("got %v, want an error that names zos: namespaces", err)
	}
}
