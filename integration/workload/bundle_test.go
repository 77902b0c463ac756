//go:build kernel

package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// dockerCapabilities are what Docker gives root unless told otherwise.
var dockerCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// environment holds what programs would otherwise ask the network or the
// machine for: sizes must be the same where there are more processors.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TERM=xterm",
	"GOMAXPROCS=2", "GOPROXY=off", "GOFLAGS=-p=2", "JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=2",
	"GIT_AUTHOR_NAME=worker", "GIT_AUTHOR_EMAIL=worker@localhost", "GIT_COMMITTER_NAME=worker",
	"GIT_COMMITTER_EMAIL=worker@localhost", "npm_config_update_notifier=false",
}

// more is what a bundle asks for where the ceilings of its profile allow it.
var more = map[string]string{
	"sage.sandbox.resources.cpu_percent":   "200",
	"sage.sandbox.resources.memory_mb":     "2048",
	"sage.sandbox.resources.max_processes": "512",
}

// newBundle is what Docker writes for
//
//	docker run --tmpfs /tmp:exec,size=512m --user USER --workdir /tmp
//
// but for its seccomp profile: without it everything that breaks does so by
// sage's own rules.
func (l *lab) newBundle(t *testing.T, profile string, p program) *harness.Bundle {
	t.Helper()
	script := l.scripts[p.name]
	return harness.NewBundle(t, func(s *specs.Spec) {
		s.Root = &specs.Root{Path: harness.Overlay(t, l.image)}
		s.Hostname = "workload"
		s.Process.Args = slices.Concat(interpreters[filepath.Ext(script)], []string{"/workload/" + script})
		s.Process.Cwd = "/tmp"
		s.Process.Env = environment
		s.Process.NoNewPrivileges = false
		s.Process.Rlimits = nil
		l.setUser(t, s, p.user)
		s.Mounts = append(s.Mounts, specs.Mount{
			Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", "size=512m"},
		})
		engineFiles(t, s)
		if strings.HasPrefix(p.name, "mounted/") {
			l.addFolders(t, s)
		}
		s.Linux.Sysctl = map[string]string{
			"net.ipv4.ip_unprivileged_port_start": "0",
			"net.ipv4.ping_group_range":           "0 2147483647",
		}
		if profile == "agent" || profile == "service" {
			s.Annotations = more
		}
	})
}

// setUser gives the capabilities to root alone: others have them in the
// bounding set, for setuid programs.
func (l *lab) setUser(t *testing.T, s *specs.Spec, name string) {
	t.Helper()
	s.Process.User = l.user(t, name)
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: dockerCapabilities}
	if name == "root" {
		s.Process.Capabilities.Effective = dockerCapabilities
		s.Process.Capabilities.Permitted = dockerCapabilities
	}
}

// user looks in the image, where packages get numbers in the order of their
// installation.
func (l *lab) user(t *testing.T, name string) specs.User {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(l.image, "etc", "passwd"))
	if err != nil {
		t.Fatal(err)
	}
	var u specs.User
	for line := range strings.Lines(string(data)) {
		rest, found := strings.CutPrefix(line, name+":x:")
		if n, err := fmt.Sscanf(rest, "%d:%d:", &u.UID, &u.GID); found && n == 2 && err == nil {
			return u
		}
	}
	t.Fatalf("expected.tsv: the image has no user %q", name)
	return u
}

// engineFiles are mounted writable, as Docker does.
func engineFiles(t *testing.T, s *specs.Spec) {
	t.Helper()
	dir := harness.TempDir(t)
	for name, text := range map[string]string{
		"hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n", "hostname": "workload\n", "resolv.conf": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.Mounts = append(s.Mounts, bind(path, "/etc/"+name))
	}
}

// addFolders mounts folders of the host, all asked for writable: one that the
// host's file does not list, one that it does, and another user's. And a tmpfs.
func (l *lab) addFolders(t *testing.T, s *specs.Spec) {
	t.Helper()
	read := harness.TempDir(t)
	if err := os.WriteFile(filepath.Join(read, "file"), []byte("of the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	write := filepath.Join(l.writable, filepath.Base(read))
	other := write + "-other"
	for _, dir := range []string{write, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(other, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	s.Mounts = append(s.Mounts, bind(read, "/mnt/read"), bind(write, "/mnt/write"), bind(other, "/mnt/other"),
		specs.Mount{Destination: "/mnt/tmpfs", Type: "tmpfs", Source: "tmpfs"})
}

func bind(source, destination string) specs.Mount {
	return specs.Mount{Destination: destination, Type: "bind", Source: source, Options: []string{"rbind", "rprivate"}}
}
