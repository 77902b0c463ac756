package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/integration/harness"
)

func TestParseFailures(t *testing.T) {
	reason := policyReasons[0]
	tests := []struct {
		name, text, want string // empty: no error
	}{
		{"one", "a.bats\ta title: with # and , \t" + reason + "\n", ""},
		{"comment and blank", "# a\n\n", ""},
		{"two columns", "a.bats\ttitle\n", "2 columns"},
		{"four columns", "a.bats\ttitle\t" + reason + "\tx\n", "4 columns"},
		{"no such reason", "a.bats\ttitle\tit is hard\n", `the reason "it is hard"`},
		{"twice", strings.Repeat("a.bats\ttitle\t"+reason+"\n", 2), "listed twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if _, err := parseFailures(tt.text); err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("error %q, want %q in it", got, tt.want)
			}
		})
	}
	got, _ := parseFailures(tests[0].text)
	if diff := cmp.Diff(map[string]string{"a.bats: a title: with # and , ": reason}, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

// TestReasons: a reason that no listed test has says something of an older policy.
func TestReasons(t *testing.T) {
	known, err := parseFailures(sageFailures)
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range policyReasons {
		if !slices.ContainsFunc(listLines(sageFailures), func(line string) bool { return strings.HasSuffix(line, "\t"+reason) }) {
			t.Errorf("none of %d listed tests has the reason %q", len(known), reason)
		}
	}
}

func TestParseProfiles(t *testing.T) {
	tests := []struct {
		args   []string
		names  []string
		host   string // of the last
		strict bool
		ok     bool
	}{
		{nil, []string{"compat"}, harness.Compat, false, true},
		{[]string{"-profile", "sage"}, []string{"sage"}, harness.SoftSage, true, true},
		{[]string{"-profile", "compat,sage"}, []string{"compat", "sage"}, harness.SoftSage, true, true},
		{[]string{"-profile", "agent"}, nil, "", false, false},
		{[]string{"-profile", ""}, nil, "", false, false},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			o, err := parseFlags(tt.args, io.Discard)
			if (err == nil) != tt.ok {
				t.Fatalf("got error %v, want one: %v", err, !tt.ok)
			}
			var names []string
			for _, p := range o.profiles {
				names = append(names, p.name)
			}
			if diff := cmp.Diff(tt.names, names); diff != "" {
				t.Fatalf("profiles (-want +got):\n%s", diff)
			}
			if last := len(names) - 1; tt.ok && (o.profiles[last].host != tt.host || o.profiles[last].strict != tt.strict) {
				t.Errorf("got host file %q, strict %v, want %q, %v", o.profiles[last].host, o.profiles[last].strict, tt.host, tt.strict)
			}
		})
	}
}

// TestInstall calls a copied contender as the suite does, and looks at the name
// and the flags that reach it.
func TestInstall(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sage-runtime")
	if err := writeProgram(program, []byte("#!/bin/sh\necho \"$*\"\n")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, host, want string }{
		{"without a host configuration", "", "--root /r state x y\n"},
		{"with one", harness.Compat, "--config DIR/host.yaml --root /r state x y\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{dir: t.TempDir()}
			c := contender{name: "sage", path: program, host: tt.host}
			if err := s.install(&c); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(s.dir, "bin", "sage")
			if c.path != filepath.Join(dir, "runc") {
				t.Errorf("got the path %s, want %s/runc", c.path, dir)
			}
			out, err := exec.Command(c.path, "--root", "/r", "state", "x y").Output()
			if got, want := string(out), strings.ReplaceAll(tt.want, "DIR", dir); err != nil || got != want {
				t.Errorf("got %q and %v, want %q", got, err, want)
			}
			if tt.host == "" {
				return
			}
			if text, err := os.ReadFile(filepath.Join(dir, "host.yaml")); err != nil || string(text) != tt.host {
				t.Errorf("host file: got %q and %v, want %q", text, err, tt.host)
			}
		})
	}
}

// TestWrapperName: a program that is no script sees the name of the wrapper.
func TestWrapperName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runc")
	if err := writeProgram(path, wrapper("/bin/bash -c 'echo $0' $0", "/x")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path).Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != path {
		t.Errorf("got %q and %v, want %q", got, err, path)
	}
}

func TestRuncIsGivenNoHostFile(t *testing.T) {
	p := profile{name: "sage", host: harness.SoftSage}
	if got := (runtimes{sage: "/s", sageIsRunc: true}).contender(p); got != (contender{name: "policy-sage", path: "/s"}) {
		t.Errorf("got %+v, want no host configuration", got)
	}
	if got := (runtimes{sage: "/s"}).contender(p); got.host != harness.SoftSage {
		t.Errorf("got %+v, want the profile's host configuration", got)
	}
}
