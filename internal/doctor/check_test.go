package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCheckCancelled: every finding is there, and none claims anything.
func TestCheckCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	findings := Check(ctx, Host{})
	if len(findings) != len(probes) {
		t.Errorf("%d findings, want %d", len(findings), len(probes))
	}
	for i, f := range findings {
		if f.OK || f.Name != probes[i].name || f.Seen != "not tried: context canceled" {
			t.Errorf("got %+v, want %s not tried", f, probes[i].name)
		}
	}
}

// TestProbes keeps the table whole: who fails a probe is told what to do.
func TestProbes(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range probes {
		if seen[p.name] {
			t.Errorf("%s is there twice", p.name)
		}
		seen[p.name] = true
		if (p.do == "") != (p.level == LevelInformation) {
			t.Errorf("%s, needed for %s, says %q to do", p.name, p.level, p.do)
		}
	}
	for _, l := range limitNeeds {
		for _, name := range l.needs {
			if !seen[name] {
				t.Errorf("limit %s needs the finding %q, which no probe makes", l.limit, name)
			}
		}
	}
}

// allFound is a host that has everything, but for the findings named.
func allFound(but ...string) []Finding {
	var findings []Finding
	for _, p := range probes {
		findings = append(findings, Finding{Name: p.name, Level: p.level, OK: !slices.Contains(but, p.name)})
	}
	return findings
}

// Proves: S-010.
func TestHardLimits(t *testing.T) {
	tests := []struct {
		name     string
		findings []Finding
		want     string
	}{
		{"everything there", allFound(), ""},
		{"without the cpu controller", allFound(controllerCPU), "cpu"},
		{"without the pids controller", allFound(controllerPIDs), "process_count"},
		{"without a quota", allFound(quotaMount), "disk"},
		{"swap without a limit", allFound(swapLimit), "memory"},
		{"without any controller", allFound(controllerCPU, controllerMemory, controllerPIDs, swapLimit), "cpu, memory, process_count"},
		{"what no limit needs", allFound("cgroup BPF", "AppArmor"), ""},
		{"not looked for", nil, "cpu, memory, disk, process_count"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if names, _ := Missing(HardLimits(tt.findings)); names != tt.want {
				t.Errorf("got %q missing, want %q", names, tt.want)
			}
		})
	}
}

// TestLook: it looks for everything that hard limits need, and a reason that
// several of them share is said once.
//
// Proves: S-010.
func TestLook(t *testing.T) {
	found := Look(Host{CgroupRoot: "/sys/fs/cgroup/sage", QuotaMount: "/proc"})
	for _, l := range limitNeeds {
		for _, name := range l.needs {
			if f := find(found, name); f.Seen == "not looked for" || f.Seen == "" || f.OK != (f.Do == "") {
				t.Errorf("%s: got %+v, want it looked for", name, f)
			}
		}
	}
	shared := Finding{Seen: "cgroup v1 alone", Do: "mount v2"}
	_, why := Missing([]MissingLimit{{"cpu", []Finding{shared}}, {"disk", []Finding{{Seen: "no quota", Do: "mount one"}}}, {"memory", []Finding{shared}}})
	if want := "cgroup v1 alone: mount v2; no quota: mount one"; why != want {
		t.Errorf("got %q, want %q", why, want)
	}
}

// TestDelegated is of directories that look like cgroups; real ones are in
// integration/hardlimits.
//
// Proves: S-130.
func TestDelegated(t *testing.T) {
	for _, c := range []struct {
		name, controllers, below, procs string
		root                            bool
		want                            string // of the error; "" for none
	}{
		{"enabled", "cpu memory\n", "memory\n", "1\n", false, ""},
		{"can be enabled", "cpu memory\n", "cpu\n", "", false, ""},
		{"cannot, as processes are in it", "cpu memory\n", "cpu\n", "1\n", false, `enables the controllers ["cpu"], without memory`},
		{"the root can all the same", "cpu memory\n", "\n", "1\n", true, ""},
		{"not there", "cpu memorial\n", "memory\n", "", false, `has the controllers ["cpu" "memorial"], without memory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"cgroup.controllers": c.controllers, "cgroup.subtree_control": c.below, "cgroup.procs": c.procs, "cgroup.type": "domain\n"}
			if c.root {
				delete(files, "cgroup.type")
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := delegated(dir, "memory")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := delegated(t.TempDir(), "memory"); err == nil {
		t.Error("got no error for a directory without files, want one")
	}
}

func TestHardLimitsSayWhy(t *testing.T) {
	got := HardLimits(allFound(controllerMemory, swapLimit))
	want := []MissingLimit{{Limit: "memory", Needs: []Finding{
		{Name: controllerMemory, Level: LevelHardLimits}, {Name: swapLimit, Level: LevelHardLimits},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missing limits (-want +got):\n%s", diff)
	}
}

func TestSupported(t *testing.T) {
	for release, want := range map[string]bool{
		"5.14.0": true, "5.14-rc1": true, "6.1.0-32-amd64": true, "10.0": true,
		"5.13.19": false, "4.18.0-553.el8": false, "5.4": false, "": false, "six": false,
	} {
		if err := supported(release); (err == nil) != want {
			t.Errorf("release %q: got %v, want it supported: %t", release, err, want)
		}
	}
}

func TestFindUnified(t *testing.T) {
	const (
		tmpfs = "24 20 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		v1    = "25 24 0:23 / /sys/fs/cgroup/cpu rw,relatime shared:3 - cgroup cgroup rw,cpu\n"
	)
	tests := []struct{ name, mountinfo, want string }{
		{"v2 alone", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup"},
		{"hybrid", tmpfs + v1 + "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"v1", tmpfs + v1, ""},
		{"a container's", "40 39 0:26 / /var/lib/c/rootfs/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n" + tmpfs, ""},
		{"begins alike", "40 39 0:26 / /sys/fs/cgroup2 rw - cgroup2 cgroup2 rw\n", ""},
		{"covered", "30 23 0:26 / /sys/fs/cgroup/a rw - cgroup2 x rw\n" + "31 23 0:26 / /sys/fs/cgroup/b rw - cgroup2 x rw\n", "/sys/fs/cgroup/b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findUnified(tt.mountinfo)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestExisting(t *testing.T) {
	mount := t.TempDir()
	if err := os.MkdirAll(filepath.Join(mount, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		mount + "/a/b": mount + "/a/b", mount + "/a/b/c/d": mount + "/a/b", mount + "/x": mount,
		mount: mount, "": mount, "/": mount, mount + "/../x": mount, mount + "x": mount,
	} {
		if got := existing(path, mount); got != want {
			t.Errorf("existing(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestQuotaRefuses(t *testing.T) {
	for mount, want := range map[string]string{
		"": "linux_quota_mount is not set", "/nonexistent": "open /nonexistent: no such file", "/proc": "/proc: the file system has magic 0x9fa0, want XFS",
	} {
		if seen, err := quota(Host{QuotaMount: mount}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("mount %q: got %q, %v; want an error with %q", mount, seen, err, want)
		}
	}
}
