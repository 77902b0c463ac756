package spec_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// FuzzParseHost: no panic, exactly one of host and error, and what is accepted
// gives a policy under every profile that a bundle may choose.
func FuzzParseHost(f *testing.F) {
	for _, text := range []string{
		full, roomy, "version: 1\n", "version: 1\nprofiles: {ci: {extends: agent, defaults: {timeout_seconds: 1}}}\n",
		"{\"version\": 1, \"hooks\": [\"/a\"]}", "version: &a 1\nx: *a", "version: 1\n---\n", "? [a]\n: b", "version: 1\nprofiles: {a: {extends: b}, b: {extends: a}}",
		nested("defaults.network", "{mode: proxy, proxy_url: \"http://[::1]:80\"}"), nested("limits.network.allowed_hosts", "[\"*\"]"),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := spec.ParseHost(data)
		if (h == nil) == (err == nil) {
			t.Fatalf("got host %v and error %v, want exactly one", h, err)
		}
		if err != nil {
			checkOneLine(t, err, errcode.ConfigInvalid)
			return
		}
		for _, name := range h.ProfileNames() {
			other, err := h.With(name)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := spec.Resolve(other, nil); err != nil || r.Policy.Profile != name {
				t.Errorf("a bundle that asks for nothing under %s: got %+v, %v", name, r.Policy, err)
			}
		}
	})
}

func checkOneLine(t *testing.T, err error, codes ...errcode.Code) {
	t.Helper()
	if text := err.Error(); strings.ContainsAny(text, "\n\r\x00") || len(text) > 2000 {
		t.Errorf("error is not one line of readable length: %q", text)
	}
	for _, code := range codes {
		if errcode.Of(err) == code {
			return
		}
	}
	t.Errorf("got %v, want a code among %v", err, codes)
}

// FuzzAnnotations: no panic, exactly one of policy and error, and what is
// accepted is accepted again as its own annotations.
func FuzzAnnotations(f *testing.F) {
	h, err := spec.ParseHost([]byte(roomy))
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range spec.AnnotationKeys() {
		f.Add(spec.AnnotationPrefix+key, "1", spec.AnnotationPrefix+"network.mode", "allowlist")
		f.Add(spec.AnnotationPrefix+key, "true", spec.AnnotationPrefix+"profile", "net")
	}
	f.Add("sage.sandbox.network.allowed_hosts", `["*.example.org","xn--bcher-kva.example.org","a.example.org."]`, "sage.sandbox.network.mode", "allowlist")
	f.Add("sage.sandbox.network.allowed_hosts", "192.0.2.1,bücher.example.org", "sage.sandbox.network.mode", "allowlist")
	f.Add("sage.sandbox.network.proxy_url", "http://proxy.example:3128", "sage.sandbox.profile", "proxied")
	f.Add("sage.sandbox.network.allowed_ports", "[443, 80]", "sage.sandbox.profile", "proxied")
	f.Add("sage.sandbox.files.protected_paths", `["/work/x"]`, "other", "")
	f.Fuzz(func(t *testing.T, key1, text1, key2, text2 string) {
		s := &specs.Spec{Annotations: map[string]string{key1: text1, key2: text2}}
		r, err := spec.Resolve(h, s)
		if reflect.DeepEqual(r, spec.Resolution{}) == (err == nil) {
			t.Fatalf("got policy %+v and error %v, want exactly one", r, err)
		}
		if err != nil {
			checkOneLine(t, err, errcode.AnnotationInvalid, errcode.LimitExceeded, errcode.PermissionDenied, errcode.ProfileUnavailable, errcode.PolicyStale)
			return
		}
		checkConsistent(t, r.Policy)
		checkIdempotent(t, h, s, r)
	})
}
