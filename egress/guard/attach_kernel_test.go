//go:build kernel

package guard

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// attachRole attaches from a process that ends then.
func attachRole(args []string) {
	dir, err := os.Open(args[0])
	if err != nil {
		panic(err)
	}
	if len(args) > 1 {
		if err := unix.Setresuid(65534, 65534, 65534); err != nil {
			panic(err)
		}
	}
	r, err := Attach(int(dir.Fd()), Options{Loopback: true})
	tell(struct {
		Record Record
		Code   errcode.Code
		Error  string
	}{r, errcode.Of(err), errorText(err)})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

type attached struct {
	Record Record
	Code   errcode.Code
	Error  string
}

// Proves: design section 4 "Attach": it lives as long as the cgroup, not as long
// as who attached it; it covers the cgroups below; a record read again verifies.
func TestOutlivesAttacher(t *testing.T) {
	w, g := newWired(t), newGroup(t)
	var a attached
	newGroup(t).run(t, w.container, &a, "role-attach", g.dir)
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	if err := Verify(g.fd(t), a.Record); err != nil {
		t.Fatal(err)
	}
	w.container.do(t, everything)
	c := w.listenAt(t)
	var results []result
	groupBelow(t, g.dir).run(t, w.container, &results, "role-attempts")
	c.settle(t, w)
	if n := c.seen(); n > 0 {
		t.Errorf("%d packets arrived from a cgroup below, want none", n)
	}
}

// Proves: attacks 13, rootless: no privilege is a refusal by name, and so is a
// directory of another kind.
func TestUnsupported(t *testing.T) {
	g := newGroup(t)
	var a attached
	newGroup(t).run(t, newSpace(t), &a, "role-attach", g.dir, "unprivileged")
	if a.Code != errcode.NetworkGuardUnsupported || !strings.Contains(a.Error, "CAP_BPF") {
		t.Errorf("without privilege: saw %s %q, want %s that names CAP_BPF", a.Code, a.Error, errcode.NetworkGuardUnsupported)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := Attach(int(dir.Fd()), Options{}); errcode.Of(err) != errcode.NetworkGuardUnsupported || !strings.Contains(err.Error(), "cgroup2") {
		t.Errorf("no cgroup: %v", err)
	}
	if err := Supported(); err != nil {
		t.Errorf("Supported = %v", err)
	}
}

// foreign loads a program that lets everything pass.
func foreign(t *testing.T, kind Kind) int {
	t.Helper()
	p := places[kind]
	p.Name, p.Instructions = "foreign", []byte{0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0}
	fd, err := sys.LoadProgram(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// attachWith attaches with flags of its own, by bpftool's call.
func attachWith(t *testing.T, g *group, program int, kind Kind, flags uint32) {
	t.Helper()
	if err := sys.AttachProgramFlags(g.fd(t), program, places[kind].Attach, flags); err != nil {
		t.Fatal(err)
	}
}

// nothingOf fails if a cgroup has a program of its own.
func nothingOf(t *testing.T, g *group) {
	t.Helper()
	for _, kind := range Kinds() {
		if ids, _, err := sys.AttachedPrograms(g.fd(t), places[kind].Attach); err != nil || len(ids) != 0 {
			t.Errorf("%s: saw %d, %v; want none left", kind, ids, err)
		}
	}
}

// Proves: attacks 13: a program above that admits no other is named, with its
// cgroup, whichever kind it is of, and nothing stays attached.
func TestExclusiveAncestor(t *testing.T) {
	for _, kind := range []Kind{Egress, Connect4, Sendmsg6} {
		t.Run(string(kind), func(t *testing.T) {
			top := newGroup(t)
			attachWith(t, top, foreign(t, kind), kind, 0)
			g := groupBelow(t, groupBelow(t, top.dir).dir)
			_, err := Attach(g.fd(t), Options{Loopback: true})
			if errcode.Of(err) != errcode.NetworkGuardUnsupported || !strings.Contains(errorText(err), "on "+top.dir+" admits no other") {
				t.Errorf("saw %v, want %s that names %s", err, errcode.NetworkGuardUnsupported, top.dir)
			}
			nothingOf(t, g)
		})
	}
}

// Proves: a drop rule of the host's that lets others take its place is not put
// out of force by the guard: that is refused instead.
func TestDisplacedAncestor(t *testing.T) {
	top := newGroup(t)
	attachWith(t, top, foreign(t, Ingress), Ingress, unix.BPF_F_ALLOW_OVERRIDE)
	g := groupBelow(t, top.dir)
	_, err := Attach(g.fd(t), Options{Loopback: true})
	if errcode.Of(err) != errcode.NetworkGuardUnsupported || !strings.Contains(errorText(err), "out of force") {
		t.Errorf("saw %v, want %s", err, errcode.NetworkGuardUnsupported)
	}
	nothingOf(t, g)
}

// Proves: principle 3, design section 4: taken off, or another in its place, is
// noticed for every program; another beside it is told and no failure.
func TestVerify(t *testing.T) {
	g := newGroup(t)
	fd := g.fd(t)
	r := g.guard(t, Options{Loopback: true})
	if len(r.Programs) != 6 || !r.Errno {
		t.Fatalf("record: saw %+v, want 8 programs that say their error", r)
	}
	for _, a := range r.Programs {
		if a.Translated == "" {
			t.Errorf("%s: this kernel shows the instructions, the record has none", a.Kind)
		}
		other := foreign(t, a.Kind)
		attachWith(t, g, other, a.Kind, unix.BPF_F_ALLOW_MULTI)
		if err := Verify(fd, r); err != nil {
			t.Errorf("%s, with another beside it: %v", a.Kind, err)
		}
		if others, err := Foreign(fd, r); err != nil || len(others) != 1 || others[0].Kind != a.Kind {
			t.Errorf("%s: others are %v, %v; want the one", a.Kind, others, err)
		}
		own, err := sys.OpenProgram(a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := sys.DetachProgram(fd, own, places[a.Kind].Attach); err != nil {
			t.Fatal(err)
		}
		if err := Verify(fd, r); errcode.Of(err) != errcode.NetworkGuardFailed || !strings.Contains(err.Error(), string(a.Kind)) {
			t.Errorf("%s taken off: Verify = %v", a.Kind, err)
		}
		attachWith(t, g, own, a.Kind, unix.BPF_F_ALLOW_MULTI)
		_ = unix.Close(own)
		if err := sys.DetachProgram(fd, other, places[a.Kind].Attach); err != nil {
			t.Fatal(err)
		}
	}
	if err := Verify(fd, r); err != nil {
		t.Error(err)
	}
}

// Proves: a record that was cut, changed or is of another cgroup verifies nothing.
func TestVerifyOfAnotherRecord(t *testing.T) {
	g := newGroup(t)
	r := g.guard(t, Options{Loopback: true})
	changes := map[string]func(r *Record){
		"empty":             func(r *Record) { *r = Record{} },
		"no programs":       func(r *Record) { r.Programs = nil },
		"one less":          func(r *Record) { r.Programs = r.Programs[1:] },
		"another number":    func(r *Record) { r.Programs[0].ID = r.Programs[1].ID },
		"another tag":       func(r *Record) { r.Programs[0].Tag = r.Programs[1].Tag },
		"another digest":    func(r *Record) { r.Programs[0].Translated = r.Programs[1].Translated },
		"an unknown kind":   func(r *Record) { r.Programs = append(r.Programs, Attached{Kind: "x", ID: 1, Tag: "x"}) },
		"impossible option": func(r *Record) { r.Options.Shared = true },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var changed Record
			if err := json.Unmarshal(data, &changed); err != nil {
				t.Fatal(err)
			}
			change(&changed)
			if err := Verify(g.fd(t), changed); errcode.Of(err) != errcode.NetworkGuardFailed {
				t.Errorf("Verify = %v, want %s", err, errcode.NetworkGuardFailed)
			}
		})
	}
	if err := Verify(newGroup(t).fd(t), r); errcode.Of(err) != errcode.NetworkGuardFailed {
		t.Errorf("on another cgroup: Verify = %v", err)
	}
}

// Proves: before Linux 5.18 calls are refused with EPERM, as at once.
func TestWithoutErrno(t *testing.T) {
	w, g := newWired(t), newGroup(t)
	programs, err := loadAll(Options{BridgePort: 3128}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(programs)
	for _, l := range programs {
		if err := sys.AttachProgram(g.fd(t), l.fd, places[l.Kind].Attach); err != nil {
			t.Fatal(err)
		}
	}
	w.container.do(t, everything)
	var results []result
	g.run(t, w.container, &results, "role-attempts")
	for _, r := range results {
		if r.Errno != unix.EPERM && r.Name != "ping6" {
			t.Errorf("%s: saw %v, want EPERM", r.Name, r.Errno)
		}
	}
}

// TestNothingIsLeft: no descriptor of this process, and no program once the
// cgroup is gone.
func TestNothingIsLeft(t *testing.T) {
	g := newGroup(t)
	dir, err := os.Open(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	r, err := Attach(int(dir.Fd()), Options{BridgePort: 3128})
	if err := errors.Join(err, Verify(int(dir.Fd()), r)); err != nil {
		t.Fatal(err)
	}
	if _, err := Foreign(int(dir.Fd()), r); err != nil {
		t.Fatal(err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("saw %d descriptors, want %d", after, before)
	}
	if err := errors.Join(dir.Close(), os.Remove(g.dir)); err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Programs {
		eventually(t, "program "+string(a.Kind)+" is gone", func() bool {
			fd, err := sys.OpenProgram(a.ID)
			if err == nil {
				_ = unix.Close(fd)
			}
			return errors.Is(err, unix.ENOENT)
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
