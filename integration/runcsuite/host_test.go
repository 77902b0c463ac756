package main

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMountsBelow(t *testing.T) {
	const info = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /tmp/s rw - tmpfs tmpfs rw
31 30 0:41 / /tmp/s/a rw - tmpfs tmpfs rw
32 31 0:42 / /tmp/s/a/with\040space rw - tmpfs tmpfs rw
33 22 0:43 / /tmp/sother rw - tmpfs tmpfs rw
short
`
	got := mountsBelow(info, "/tmp/s")
	if diff := cmp.Diff(got, []string{"/tmp/s/a", "/tmp/s/a/with space"}); diff != "" {
		t.Errorf("mounts (-got +want):\n%s", diff)
	}
}

func TestSuiteNetns(t *testing.T) {
	for name, want := range map[string]bool{"tmp.Ab3dEf9hIj": true, "cni-0123": false, "tmp.short": false, "xtmp.Ab3dEf9hIj": false} {
		if got := suiteNetns.MatchString(name); got != want {
			t.Errorf("%s is the suite's: %v, want %v", name, got, want)
		}
	}
}

func TestSuiteEnv(t *testing.T) {
	in := []string{"PATH=/bin", "RUNC=/else", "RUNC_USE_SYSTEMD=1", "BATS_TMPDIR=/x", "TMPDIR=/y", "ROOTLESS_FEATURES=", "RUNCX=kept"}
	want := []string{"PATH=/bin", "RUNCX=kept", "RUNC=/bin/rt", "TMPDIR=/tmp/s"}
	if diff := cmp.Diff(suiteEnv(in, "/bin/rt", "/tmp/s"), want); diff != "" {
		t.Errorf("environment (-got +want):\n%s", diff)
	}
	if !slices.Contains(in, "RUNC=/else") {
		t.Error("the environment passed in was changed")
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string
		bad  bool
	}{
		{name: "all", args: nil, want: []string{}},
		{name: "files", args: []string{"-files", "a.bats,b.bats"}, want: []string{"a.bats", "b.bats"}},
		{name: "subset", args: []string{"-subset"}, want: listLines(subsetList)},
		{name: "both", args: []string{"-subset", "-files", "a.bats"}, bad: true},
		{name: "argument", args: []string{"a.bats"}, bad: true},
		{name: "unknown flag", args: []string{"-x"}, bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := parseFlags(tt.args, &bytes.Buffer{})
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %v", err, tt.bad)
			}
			if err == nil {
				if diff := cmp.Diff(o.wanted(), tt.want); diff != "" {
					t.Errorf("files (-got +want):\n%s", diff)
				}
			}
		})
	}
}

func TestWriteTable(t *testing.T) {
	runs := [2]outcomeOf{
		{name: "runc", took: 61 * time.Second, log: "/c/runc.tap", report: report{results: []result{{key: "f: a", outcome: passed}, {key: "f: b", outcome: skipped}}}},
		{
			name: "sage", took: 59 * time.Second, log: "/c/sage.tap", cleaned: []string{"container x"},
			report: report{results: []result{{key: "f: a", outcome: failed, lines: []string{"line 1", "line 2"}}, {key: "f: b", outcome: skipped}}},
		},
	}
	var got bytes.Buffer
	writeTable(&got, "v9.9.9", runs, judge(runs[0].results, runs[1].results, nil))
	const want = `
runc v9.9.9's own suite

               pass   skip   fail     time   log
runc              1      1      0     1m1s   /c/runc.tap
sage              0      1      1      59s   /c/sage.tap

passed by both              0
skipped by both             1
failed by both              0
failed by sage only         1
    f: a (failed)
  excepted                  0
passed by sage only         0
left by tests, sage         1
    container x

f: a
    line 1
    line 2
`
	if diff := cmp.Diff(got.String(), want); diff != "" {
		t.Errorf("table (-got +want):\n%s", diff)
	}
}
