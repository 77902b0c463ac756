package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewest(t *testing.T) {
	const listing = `linux-image-6.12.9+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)
linux-image-6.12.117+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)
linux-image-6.12.117+deb12-rt-amd64 - real time
linux-image-6.12.118+deb12-cloud-amd64 - Linux 6.12 for clouds
linux-image-6.12.119+deb12-amd64-dbg - debug symbols
linux-image-6.12-amd64 - Linux for 64-bit PCs (meta-package)
linux-image-6.1.0-57-amd64 - Linux 6.1 for 64-bit PCs (signed)
`
	for release, want := range map[string]string{
		"6.12": "linux-image-6.12.117+deb12-amd64",
		"6.1":  "linux-image-6.1.0-57-amd64",
		"6.2":  "",
	} {
		if got := newest(release, listing); got != want {
			t.Errorf("%s: got %q, want %q", release, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	names := []string{"TestCPU", "TestMemory", "TestEngineCPU", "TestSystemdCPU"}
	for _, c := range []struct {
		name, run               string
		plain, engines, systemd []string
	}{
		{"all", "", []string{"TestCPU", "TestMemory"}, []string{"TestEngineCPU"}, []string{"TestSystemdCPU"}},
		{"one", "^TestCPU$", []string{"TestCPU"}, nil, nil},
		{"all guests", "CPU", []string{"TestCPU"}, []string{"TestEngineCPU"}, []string{"TestSystemdCPU"}},
		{"subtest", "TestMem/swap", []string{"TestMemory"}, nil, nil},
		{"none", "TestDisk", nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := choose(names, c.run)
			if diff := cmp.Diff([][]string{c.plain, c.engines, c.systemd}, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestParseFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-kernel", "5.10"},
		{"-script", "x", "-run", "y"},
		{"-timeout", "1s"},
		{"-accel", "hvf"},
		{"rest"},
	} {
		if _, err := parseFlags(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	o, err := parseFlags([]string{"-kernel", "all", "-pkg", "./a,./b ./c"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"6.1", "6.12"}, {"./a", "./b", "./c"}}
	if diff := cmp.Diff(want, [][]string{o.kernels, o.packages}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
