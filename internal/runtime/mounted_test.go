package runtime

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

func TestParseMounts(t *testing.T) {
	const text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n" +
		`37 36 0:5 / /a\040b\134c ro,nosuid - tmpfs none rw` + "\n"
	want := []mountPoint{
		{path: "/mnt2", root: "/mnt1", options: []string{"rw", "noatime"}, fstype: "ext3", super: "rw,errors=continue"},
		{path: `/a b\c`, root: "/", options: []string{"ro", "nosuid"}, fstype: "tmpfs", super: "rw"},
	}
	got, err := parseMounts(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mountPoint{})); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"36 35 98:0 / /x rw\n", "x - y\n", "36 35 98:0 / /x rw -\n"} {
		if got, err := parseMounts(bad); err == nil {
			t.Errorf("parseMounts(%q): got %v, want an error", bad, got)
		}
	}
}

// Proves: S-108, G-09.
func TestJudgeMount(t *testing.T) {
	s := &specs.Spec{Root: &specs.Root{Readonly: true}, Mounts: []specs.Mount{
		{Destination: "/data", Options: []string{"bind", "ro"}}, {Destination: "/work", Options: []string{"bind"}},
	}}
	p := spec.Policy{Files: spec.Files{ReadonlyProc: true}}
	const rw, ro = "rw,nosuid,nodev,noexec", "ro,nosuid,nodev,noexec"
	tests := []struct {
		name string
		path string
		kind string
		opts string
		root string
		want string // part of the error, "" for none
	}{
		{"root", "/", "overlay", "ro,relatime", "/", ""},
		{"writable root", "/", "overlay", "rw,relatime", "/", "want ro"},
		{"proc", "/proc", "proc", ro, "/", ""},
		{"writable proc", "/proc", "proc", rw, "/", "want ro"},
		{"proc elsewhere", "/x", "proc", ro, "/", "want it at /proc only"},
		{"masked file", "/proc/kcore", "tmpfs", rw, "/null", ""},
		{"masked file in a user namespace", "/proc/kcore", "devtmpfs", rw, "/null", ""},
		{"masked directory", "/proc/acpi", "mask", "ro,relatime", "/", ""},
		{"masked directory of the image", "/testdir", "mask", "ro,relatime", "/", ""},
		{"masked file of the image", "/testfile", "tmpfs", "rw,nosuid", "/null", ""},
		{"mask that can be written", "/testdir", "mask", "rw,relatime", "/", "want nosuid"},
		{"tmpfs that is no mask", "/testdir", "tmpfs", "ro,relatime", "/", "want nosuid"},
		{"read-only path of the image", "/etc", "overlay", "ro,relatime", "/rootfs/etc", ""},
		{"read-only path that is not", "/etc", "overlay", "rw,relatime", "/rootfs/etc", "want nosuid"},
		{"another part of the image", "/etc", "overlay", "ro,relatime", "/rootfs/usr", "want nosuid"},
		{"something over part of proc", "/proc/self", "tmpfs", rw, "/", "kernel's own"},
		{"something over proc", "/proc", "tmpfs", ro, "/", "kernel's own"},
		{"read-only path of proc", "/proc/sys", "proc", ro, "/sys", ""},
		{"writable path of proc", "/proc/sys", "proc", rw, "/sys", "want ro"},
		{"sysfs", "/sys", "sysfs", ro, "/", ""},
		{"writable sysfs", "/sys", "sysfs", rw, "/", "want ro"},
		{"cgroup", "/sys/fs/cgroup/memory", "cgroup", ro, "/", ""},
		{"writable cgroup", "/sys/fs/cgroup", "cgroup2", rw, "/", "want ro"},
		{"directory of cgroup v1", "/sys/fs/cgroup", "tmpfs", ro, "/", ""},
		{"writable directory of cgroup v1", "/sys/fs/cgroup", "tmpfs", rw, "/", "kernel's own"},
		{"cgroup elsewhere", "/c", "cgroup", ro, "/", "only"},
		{"debugfs", "/sys/kernel/debug", "debugfs", ro, "/", "interface to the kernel"},
		{"debugfs below a bind", "/data/debug", "debugfs", ro, "/", "interface to the kernel"},
		{"devtmpfs", "/dev", "devtmpfs", rw, "/", "interface to the kernel"},
		{"device in a user namespace", "/dev/zero", "devtmpfs", "rw,nosuid", "/zero", ""},
		{"dev", "/dev", "tmpfs", "rw,nosuid", "/", ""},
		{"terminals", "/dev/pts", "devpts", "rw,nosuid,noexec", "/", ""},
		{"terminals elsewhere", "/pts", "devpts", "rw", "/", "only"},
		{"bind", "/work", "ext4", rw, "/srv", ""},
		{"bind with devices", "/work", "ext4", "rw,nosuid", "/srv", "want nodev"},
		{"bind with suid", "/work", "ext4", "rw,nodev", "/srv", "want nosuid"},
		{"read-only bind", "/data", "ext4", ro, "/srv", ""},
		{"read-only bind that is not", "/data", "ext4", rw, "/srv", "want ro"},
		{"fuse", "/work", "fuse.sshfs", rw, "/", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mountPoint{path: tt.path, root: tt.root, options: strings.Split(tt.opts, ","), fstype: tt.kind, super: "rw"}
			if tt.kind == "mask" {
				m.fstype, m.super = "tmpfs", "ro,size=4k,nr_inodes=1"
			}
			mounts := []mountPoint{{path: "/", root: "/rootfs", options: []string{"ro"}, fstype: "overlay"}}
			err := judgeMounts(append(mounts, m), s, p)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
