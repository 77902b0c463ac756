//go:build kernel

package proxy

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/confine"
)

// program builds sage-egress as it ships.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sage-egress")
	cmd := exec.Command("go", "build", "-tags", "netgo osusergo", "-ldflags", "-s -w", "-o", path, "../../cmd/sage-egress")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// confined starts the program with config, and gives the process to into.
func confined(t *testing.T, path string, into *exec.Cmd) func(*proxyUnderTest, egress.ProxyConfig) {
	return func(p *proxyUnderTest, config egress.ProxyConfig) {
		root := t.TempDir()
		if err := os.Chmod(root, 0o555); err != nil {
			t.Fatal(err)
		}
		*into = *exec.Command(path, "proxy")
		var files []*os.File
		pass := func(fd *int) {
			if *fd >= 0 {
				files = append(files, os.NewFile(uintptr(*fd), "given"))
				*fd = len(files) - 1
			}
		}
		pass(&config.Control)
		pass(&config.Ready)
		pass(&config.Events)
		pass(&config.Counters)
		pass(&config.Audit[0])
		pass(&config.Audit[1])
		var stderr strings.Builder
		into.Stderr = &stderr
		orders, err := confine.Launch(into, confine.Identity{UID: 64317, GID: 64317, Root: root}, nil)
		if err == nil {
			err = orders.Give(config, files)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			_ = f.Close()
		}
		go func() {
			err := into.Wait()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, stderr.String())
			}
			p.ended <- err
			close(p.ended)
		}()
		t.Cleanup(func() {
			p.hangUp()
			select {
			case err := <-p.ended:
				if err != nil {
					t.Errorf("the program: %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("the program does not end")
				_ = into.Process.Kill()
			}
		})
	}
}

// resident is what /proc says, in KiB.
func resident(t *testing.T, pid int) (rss, anonymous int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			rss, _ = strconv.Atoi(f[1])
		} else if len(f) == 3 && f[0] == "RssAnon:" {
			anonymous, _ = strconv.Atoi(f[1])
		}
	}
	return rss, anonymous
}

// Proves: design.md section 9. Everything that the proxy does works under its
// confinement: the call that its filter lacks would end it. It starts in at
// most 10 MiB, and after work it is not much larger.
func TestProgram(t *testing.T) {
	path := program(t)
	tlsPort, config := tlsOrigin(t, nil, "origin.example")
	origin := recordingOrigin(t, "\r\n\r\n", ok200)
	big, _ := pouring(t, 20<<20)
	var cmd exec.Cmd
	p := start(t, options{
		allow:       []string{"origin.example", "dual.example", fmt.Sprintf("tcp://db.example:%d", big)},
		ports:       []uint16{tlsPort, origin.port},
		transparent: true, auditMax: 3000, reachable: []string{"127.0.0.0/8", "::1/128"},
		process: confined(t, path, &cmd),
	})
	rss, anonymous := resident(t, cmd.Process.Pid)
	t.Logf("at first: %d KiB resident, %d KiB of them its own", rss, anonymous)
	waitFor(t, "size of 10240 KiB at most", func() bool {
		rss, anonymous = resident(t, cmd.Process.Pid)
		return rss <= 10<<10
	})
	t.Logf("idle: %d KiB resident, %d KiB of them its own", rss, anonymous)
	for _, name := range []string{"origin.example", "db.example"} {
		p.names.set(name, []string{"127.0.0.1"})
	}
	p.names.set("dual.example", []string{"::1", "2001:db8::1", "127.0.0.1"})
	for range 20 {
		if body, err := get(p.connect(fmt.Sprintf("origin.example:%d", tlsPort)), config); err != nil {
			t.Fatalf("tunnel: %q, %v", body, err)
		}
		if status, _, body := p.ask(fmt.Sprintf("GET http://origin.example:%d/ HTTP/1.1\r\n\r\n", origin.port)); status != 200 {
			t.Fatalf("plain: %d, %q", status, body)
		}
		if status, _, body := p.ask("CONNECT evil.example:443 HTTP/1.1\r\n\r\n"); status != 403 {
			t.Fatalf("denied: %d, %q", status, body)
		}
		if status, _, body := p.ask(fmt.Sprintf("GET http://dual.example:%d/ HTTP/1.1\r\n\r\n", origin.port)); status != 200 {
			t.Fatalf("two families: %d, %q", status, body)
		}
		if body, err := get(p.transparentClient("origin.example", tlsPort), config); err != nil {
			t.Fatalf("transparent: %q, %v", body, err)
		}
		c := p.connect(fmt.Sprintf("db.example:%d", big))
		if n, err := io.Copy(io.Discard, c); n != 20<<20 || err != nil {
			t.Fatalf("20 MiB: %d, %v", n, err)
		}
		_ = c.Close()
	}
	rss, anonymous = resident(t, cmd.Process.Pid)
	t.Logf("after work: %d KiB resident, %d KiB of them its own", rss, anonymous)
	if rss > 14<<10 {
		t.Errorf("after work: %d KiB resident, want 14336 at most", rss)
	}
}

// Proves: S-089. When the container's cgroup is empty the program ends, with
// its connections, within a second.
func TestProgramEndsWithCgroup(t *testing.T) {
	group := newGroup(t)
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	events := open(t, filepath.Join(group, "cgroup.events"), unix.O_RDONLY)
	var cmd exec.Cmd
	run := confined(t, program(t), &cmd)
	p := start(t, options{allow: []string{"origin.example"}, process: func(p *proxyUnderTest, config egress.ProxyConfig) {
		config.Events = events
		run(p, config)
	}})
	c := p.client()
	waitFor(t, "client", func() bool { return p.count(egress.CounterHeld) == 1 })
	_ = sleeper.Process.Kill()
	began := time.Now()
	_ = sleeper.Wait()
	select {
	case <-p.ended: //nolint:errcheck // how it ends is asked elsewhere
	case <-time.After(time.Second):
		t.Fatal("the program lives on for more than a second")
	}
	if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
		t.Error("a connection lives on")
	}
	t.Logf("ended %v after the container", time.Since(began))
}

// newGroup makes a cgroup of version 2 of the test's own.
func newGroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
			continue
		}
		group, err := os.MkdirTemp(root, "sage-proxy-test-") //nolint:usetesting // a cgroup lies in a tree of the kernel's
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(group); err != nil {
				t.Error(err)
			}
		})
		return group
	}
	t.Fatal("no cgroup version 2 is mounted at the usual places")
	return ""
}
