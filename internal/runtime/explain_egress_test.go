package runtime

import (
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// TestAnswerURLs asks a policy about URLs as people write them.
//
// Proves: S-068, S-069, S-070, S-071, E-065, G-06.
func TestAnswerURLs(t *testing.T) {
	h, err := spec.ParseHost([]byte(`version: 1
default_profile: ci
egress: {reachable: [192.0.2.0/24]}
profiles:
  ci:
    extends: agent
    defaults:
      network:
        mode: allowlist
        allowed_hosts: [pypi.org, "*.example.com", "https://tls.example:8443", "tcp://db.example:5432", 192.0.2.7, 169.254.169.254, 10.0.0.1, 127.0.0.1, 8.8.8.8]
        denied_hosts: [bad.example.com]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := spec.Resolve(h, &specs.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	const later = true
	tests := []struct {
		url, text string
		code      errcode.Code
		later     bool // the address is not known yet
	}{
		{"https://pypi.org", "https://pypi.org:443", "", later},
		{"HTTPS://PyPI.org.:443/simple/?a#b", "https://pypi.org:443", "", later},
		{"http://pypi.org?x=@y", "http://pypi.org:80", "", later},
		{"wss://a.example.com/chat", "https://a.example.com:443", "", later},
		{"https://example.com", "https://example.com:443", errcode.EgressHostDenied, false},
		{"https://bad.example.com", "https://bad.example.com:443", errcode.EgressHostDenied, false},
		{"https://evilpypi.org", "https://evilpypi.org:443", errcode.EgressHostDenied, false},
		{"https://pypi.org:8443", "https://pypi.org:8443", errcode.EgressPortDenied, false},
		{"https://tls.example:8443", "https://tls.example:8443", "", later},
		{"http://tls.example:8443", "http://tls.example:8443", errcode.EgressSchemeDenied, false},
		{"tcp://db.example:5432", "tcp://db.example:5432", "", later},
		{"tcp://pypi.org:443", "tcp://pypi.org:443", errcode.EgressSchemeDenied, false},
		{"https://192.0.2.7", "https://192.0.2.7:443", "", false},
		{"https://8.8.8.8", "https://8.8.8.8:443", "", false},
		{"http://169.254.169.254/latest/meta-data", "http://169.254.169.254:80", errcode.EgressAddressDenied, false},
		{"http://10.0.0.1", "http://10.0.0.1:80", errcode.EgressAddressDenied, false},
		{"http://127.0.0.1", "http://127.0.0.1:80", errcode.EgressAddressDenied, false},
		{"http://192.0.2.8", "http://192.0.2.8:80", errcode.EgressHostDenied, false},
		{"https://127.1/", `"https://127.1/"`, errcode.EgressBadRequest, false},
		{"https://0x7f000001", `"https://0x7f000001"`, errcode.EgressBadRequest, false},
		{"https://[::ffff:127.0.0.1]/", `"https://[::ffff:127.0.0.1]/"`, errcode.EgressBadRequest, false},
		{"https://user:hunter2@pypi.org/", `"...@pypi.org/"`, errcode.EgressBadRequest, false},
		{"https://pypi.org@evil.example/", `"...@evil.example/"`, errcode.EgressBadRequest, false},
		{"https://pypi.org\\@evil.example", `"...@evil.example"`, errcode.EgressBadRequest, false},
		{"https://p%79pi.org", `"https://p%79pi.org"`, errcode.EgressBadRequest, false},
		{"https://pypi.org\x00.evil.example", `"https://pypi.org\x00.evil.example"`, errcode.EgressBadRequest, false},
		{"ftp://pypi.org", `"ftp://pypi.org"`, errcode.EgressBadRequest, false},
		{"ws://pypi.org", `"ws://pypi.org"`, errcode.EgressBadRequest, false},
		{"tcp://db.example", `"tcp://db.example"`, errcode.EgressBadRequest, false},
		{"pypi.org", `"pypi.org"`, errcode.EgressBadRequest, false},
		{"https://", `"https://"`, errcode.EgressBadRequest, false},
		{"", `""`, errcode.EgressBadRequest, false},
	}
	for _, tt := range tests {
		answers, err := answerURLs(r.Policy, []string{tt.url})
		if err != nil {
			t.Fatal(err)
		}
		a := answers[0]
		if a.URL != tt.text || a.Code != tt.code || a.Allow != (tt.code == "") || (a.Address != "") != tt.later {
			t.Errorf("%q: got %+v, want %s with code %q", tt.url, a, tt.text, tt.code)
		}
		if !a.Allow && a.Reason == "" || strings.Contains(a.URL+a.Reason, "hunter2") {
			t.Errorf("%q: no reason, or a password in it: %+v", tt.url, a)
		}
	}
	if a, err := answerURLs(spec.Policy{Compat: true}, []string{"https://pypi.org"}); err != nil || !a[0].Allow {
		t.Errorf("compat: got %+v, %v", a, err)
	}
}
