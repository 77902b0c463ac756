package hardening

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Proves: S-102, E-028.
func TestCapabilities(t *testing.T) {
	all := &specs.LinuxCapabilities{Bounding: known, Effective: known, Permitted: known, Inheritable: known, Ambient: known}
	kill := []string{"CAP_KILL"}
	for _, c := range []struct {
		name   string
		caps   *specs.LinuxCapabilities
		uid    uint32
		policy []string
		want   specs.LinuxCapabilities
	}{
		{name: "--cap-add=ALL, none in the policy", caps: all},
		{name: "absent, which would be all", policy: kill},
		{
			name: "root, one in the policy", caps: all, policy: kill,
			want: specs.LinuxCapabilities{Bounding: kill, Effective: kill, Permitted: kill},
		},
		{
			name: "root, not effective", policy: kill,
			caps: &specs.LinuxCapabilities{Bounding: kill, Permitted: kill},
			want: specs.LinuxCapabilities{Bounding: kill},
		},
		{
			name: "another user, ambient", caps: all, uid: 1000, policy: kill,
			want: specs.LinuxCapabilities{Bounding: kill, Effective: kill, Permitted: kill, Inheritable: kill, Ambient: kill},
		},
		{
			name: "another user, as Docker", uid: 1000, policy: kill,
			caps: &specs.LinuxCapabilities{Bounding: kill},
			want: specs.LinuxCapabilities{Bounding: kill},
		},
		{
			name: "ambient without inheritable", uid: 1000, policy: kill,
			caps: &specs.LinuxCapabilities{Bounding: kill, Permitted: kill, Ambient: kill},
			want: specs.LinuxCapabilities{Bounding: kill},
		},
		{
			name: "permitted without bounding", policy: kill,
			caps: &specs.LinuxCapabilities{Effective: kill, Permitted: kill},
		},
		{
			name: "not more than the bundle asks for", policy: []string{"CAP_CHOWN", "CAP_KILL"},
			caps: &specs.LinuxCapabilities{Bounding: kill, Effective: kill, Permitted: kill},
			want: specs.LinuxCapabilities{Bounding: kill, Effective: kill, Permitted: kill},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := strict()
			p.Process.Capabilities = c.policy
			proc := &specs.Process{Args: []string{"x"}, Cwd: "/", User: specs.User{UID: c.uid}, Capabilities: c.caps}
			got, changes, err := ApplyProcess(proc, p, Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*got.Capabilities, c.want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
			if c.caps == all && len(changes) == 0 {
				t.Error("got no change, want the lost capabilities told")
			}
		})
	}
	runCases(t, strict, []outcome{{
		name: "a name that no kernel knows", denied: `process.capabilities: saw "CAP_GOD"`, code: errcode.BundleInvalid,
		bundle: func(s *specs.Spec) {
			s.Process.Capabilities = &specs.LinuxCapabilities{Permitted: []string{"CAP_GOD"}}
		},
	}})
}

// Proves: S-112, E-037, C-13.
func TestUser(t *testing.T) {
	number := uint32(1001)
	mapped := func(s *specs.Spec) {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		s.Linux.UIDMappings = []specs.LinuxIDMapping{{ContainerID: 0, HostID: 100000, Size: 65536}}
		s.Linux.GIDMappings = s.Linux.UIDMappings
	}
	identity := func(s *specs.Spec) {
		mapped(s)
		s.Linux.UIDMappings = []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0, Size: 65536}}
	}
	nonRoot := func(p *spec.Policy) { p.Process.RequireNonRoot = true }
	replace := func(p *spec.Policy) { p.Process.ExecutionUID, p.Process.ExecutionGID = &number, &number }
	user := func(uid, gid uint32, groups ...uint32) func(*specs.Spec) {
		return func(s *specs.Spec) { s.Process.User = specs.User{UID: uid, GID: gid, AdditionalGids: groups} }
	}
	want := func(uid, gid uint32, groups ...uint32) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			if diff := cmp.Diff(r.Spec.Process.User, specs.User{UID: uid, GID: gid, AdditionalGids: groups}); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		}
	}
	runCases(t, strict, []outcome{
		{name: "root, where nobody minds", bundle: user(0, 0, 0), check: want(0, 0, 0)},
		{name: "--group-add 0", bundle: user(1000, 1000, 10, 0), denied: "process.user.additionalGids[1]: saw root's group"},
		{name: "root's group as the primary one", bundle: user(1000, 0, 0), check: want(1000, 0, 0)},
		{name: "root, refused", bundle: user(0, 0), policy: nonRoot, denied: "process.user.uid: saw root"},
		{name: "root's group, refused", bundle: user(1000, 0), policy: nonRoot, denied: "process.user.gid: saw root's group"},
		{name: "another user", bundle: user(1000, 1000, 5), policy: nonRoot, check: want(1000, 1000, 5)},
		{name: "root of a user namespace", bundle: mapped, policy: nonRoot, check: want(0, 0)},
		{name: "root of a user namespace that is the host's", bundle: identity, policy: nonRoot, denied: "process.user.uid: saw root"},
		{name: "root, replaced", bundle: user(0, 0, 0, 10), policy: replace, check: want(1001, 1001)},
		{name: "root's group, replaced", bundle: user(1000, 0, 0), policy: replace, check: want(1000, 1001)},
		{name: "another user, not replaced", bundle: user(1000, 1000, 5), policy: replace, check: want(1000, 1000, 5)},
		{name: "root of a user namespace, not replaced", bundle: mapped, policy: replace, check: want(0, 0)},
		{name: "replaced and required", bundle: user(0, 0, 0), policy: func(p *spec.Policy) {
			nonRoot(p)
			replace(p)
		}, check: want(1001, 1001)},
	})
}

// Proves: S-030, S-031, S-033, S-038, S-040, S-041.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    []string
		policy spec.Process
		want   []string
		denied string
	}{
		{name: "as it is", env: []string{"A=1", "with.dot=2", "EMPTY="}, want: []string{"A=1", "with.dot=2", "EMPTY="}},
		{name: "the last one wins", env: []string{"A=1", "B=2", "A=3"}, want: []string{"B=2", "A=3"}},
		{name: "a PATH of the host", env: []string{"PATH=/evil", "A=1"}, policy: spec.Process{CommandPath: "/usr/bin:/bin"}, want: []string{"A=1", "PATH=/usr/bin:/bin"}},
		{name: "a PATH where there was none", env: nil, policy: spec.Process{CommandPath: "/bin"}, want: []string{"PATH=/bin"}},
		{name: "forced", env: []string{"HTTP_PROXY=evil", "A=1"}, policy: spec.Process{ForceEnv: []string{"HTTP_PROXY=x", "Z=y"}}, want: []string{"A=1", "HTTP_PROXY=x", "Z=y"}},
		{name: "forced PATH is the last word", policy: spec.Process{CommandPath: "/bin", ForceEnv: []string{"PATH=/opt"}}, want: []string{"PATH=/opt"}},
		{name: "allowed", env: []string{"A=1"}, policy: spec.Process{AllowedEnv: []string{"A"}}, want: []string{"A=1"}},
		{name: "not allowed", env: []string{"B=secret", "A=1", "C=secret"}, policy: spec.Process{AllowedEnv: []string{"A"}}, denied: `process.env: saw "B", "C", want only names`},
		{name: "none allowed", env: []string{"A=1"}, policy: spec.Process{AllowedEnv: []string{}}, denied: `saw "A"`},
		{name: "overwritten, so not asked about", env: []string{"PATH=/evil"}, policy: spec.Process{AllowedEnv: []string{}, CommandPath: "/bin"}, want: []string{"PATH=/bin"}},
		{name: "no value", env: []string{"A=1", "secret"}, denied: "process.env[1]: want NAME=value"},
		{name: "no name", env: []string{"=secret"}, denied: "process.env[0]: want NAME=value"},
		{name: "NUL", env: []string{"A=secret\x00"}, denied: "process.env[0]: saw a NUL byte"},
		{name: "speaks to libcontainer", env: []string{"_LIBCONTAINER_INITPIPE=0"}, denied: "process.env[0]: saw a name that begins with _LIBCONTAINER_"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := strict()
			p.Process = c.policy
			got, _, err := ApplyProcess(&specs.Process{Cwd: "/", Env: c.env}, p, Facts{})
			if c.denied != "" {
				if err == nil || !strings.Contains(err.Error(), c.denied) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("got %v, want %q and no value", err, c.denied)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Env, c.want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		})
	}
}

// The changes are printed and kept: no value may be in them (S-044).
func TestChangesHoldNoSecret(t *testing.T) {
	s := bundle()
	s.Process.Args = []string{"sh", "-c", "hunter2"}
	s.Process.Env = []string{"PATH=/hunter2", "A=hunter2", "A=hunter2", "PROXY=hunter2x"}
	p := strict()
	p.Process.CommandPath, p.Process.ForceEnv = "/hunter2/bin", []string{"PROXY=hunter2", "Q=hunter2"}
	r, err := Apply(s, p, plainFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, c := range r.Changes {
		if strings.Contains(c.Was+c.Now+c.Why, "hunter2") {
			t.Errorf("got %+v, want no value in it", c)
		}
		if c.Field == "process.env" {
			names++
		}
	}
	if names != 4 {
		t.Errorf("got %d changes of process.env in %+v, want 4", names, r.Changes)
	}
}

// Proves: S-022, S-023, E-028.
func TestRlimits(t *testing.T) {
	core := specs.POSIXRlimit{Type: "RLIMIT_CORE"}
	files := func(soft, hard uint64) specs.POSIXRlimit {
		return specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Soft: soft, Hard: hard}
	}
	limit := func(name string, soft, hard uint64) specs.POSIXRlimit {
		return specs.POSIXRlimit{Type: name, Soft: soft, Hard: hard}
	}
	for _, c := range []struct {
		name   string
		have   []specs.POSIXRlimit
		policy spec.Process
		want   []specs.POSIXRlimit
		denied string
	}{
		{name: "absent", policy: spec.Process{MaxOpenFiles: 4096}, want: []specs.POSIXRlimit{core, files(1024, 4096)}},
		{name: "absent, and a low ceiling", policy: spec.Process{MaxOpenFiles: 512}, want: []specs.POSIXRlimit{core, files(512, 512)}},
		{name: "no ceiling settled", want: []specs.POSIXRlimit{core, files(1024, 1024)}},
		{
			name: "as Podman asks", policy: spec.Process{MaxOpenFiles: 1024},
			have: []specs.POSIXRlimit{files(1048576, 1048576), limit("RLIMIT_NPROC", 4194304, 4194304)},
			want: []specs.POSIXRlimit{files(1024, 1024), limit("RLIMIT_NPROC", 4194304, 4194304), core},
		},
		{
			name: "less than the ceiling", policy: spec.Process{MaxOpenFiles: 1024},
			have: []specs.POSIXRlimit{files(100, 200)}, want: []specs.POSIXRlimit{files(100, 200), core},
		},
		{
			name: "core dumps", policy: spec.Process{MaxOpenFiles: 1024},
			have: []specs.POSIXRlimit{limit("RLIMIT_CORE", unlimited, unlimited)},
			want: []specs.POSIXRlimit{core, files(1024, 1024)},
		},
		{
			name: "one file's size", policy: spec.Process{MaxOpenFiles: 1024, MaxFileBytes: 1 << 20},
			want: []specs.POSIXRlimit{core, files(1024, 1024), limit("RLIMIT_FSIZE", 1<<20, 1<<20)},
		},
		{
			name: "one file's size, asked for", policy: spec.Process{MaxOpenFiles: 1024, MaxFileBytes: 1 << 20},
			have: []specs.POSIXRlimit{limit("RLIMIT_FSIZE", 1, unlimited)},
			want: []specs.POSIXRlimit{limit("RLIMIT_FSIZE", 1, 1<<20), core, files(1024, 1024)},
		},
		{
			name: "priority and locked memory", policy: spec.Process{MaxOpenFiles: 1024},
			have: []specs.POSIXRlimit{
				limit("RLIMIT_NICE", 20, 40), limit("RLIMIT_RTPRIO", 99, 99), limit("RLIMIT_MEMLOCK", unlimited, unlimited),
				limit("RLIMIT_STACK", unlimited, unlimited),
			},
			want: []specs.POSIXRlimit{
				limit("RLIMIT_NICE", 0, 0), limit("RLIMIT_RTPRIO", 0, 0), limit("RLIMIT_MEMLOCK", 8<<20, 8<<20),
				limit("RLIMIT_STACK", unlimited, unlimited), core, files(1024, 1024),
			},
		},
		{name: "unknown", have: []specs.POSIXRlimit{limit("RLIMIT_FOO", 1, 1)}, denied: "wrong rlimit value: RLIMIT_FOO"},
		{name: "twice", have: []specs.POSIXRlimit{files(1, 1), files(2, 2)}, denied: "process.rlimits[1]: saw RLIMIT_NOFILE twice"},
		{name: "soft above hard", have: []specs.POSIXRlimit{files(3, 2)}, denied: "a soft limit of 3 above the hard one of 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := strict()
			p.Process = c.policy
			got, _, err := ApplyProcess(&specs.Process{Cwd: "/", Rlimits: c.have}, p, Facts{})
			if c.denied != "" {
				outcome{denied: c.denied, code: errcode.BundleInvalid}.wantError(t, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Rlimits, c.want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		})
	}
}

// Proves: E-034.
func TestProcessFields(t *testing.T) {
	score := func(n int) func(*specs.Spec) { return func(s *specs.Spec) { s.Process.OOMScoreAdj = &n } }
	cwd := func(dir string) func(*specs.Spec) { return func(s *specs.Spec) { s.Process.Cwd = dir } }
	scheduler := func(v specs.Scheduler) func(*specs.Spec) {
		return func(s *specs.Spec) { s.Process.Scheduler = &v }
	}
	armor := func(p *spec.Policy) { p.Files.RequireAppArmor = true }
	hostArmor := func(f *Facts) { f.AppArmor = true }
	runCases(t, strict, []outcome{
		{name: "no_new_privs is forced", check: func(t *testing.T, r Result) {
			if !r.Spec.Process.NoNewPrivileges {
				t.Error("got it off, want it on")
			}
			wantChange(t, r, "process.noNewPrivileges", Tightened)
		}},
		{name: "cwd", bundle: cwd("/work/a")},
		{name: "cwd, relative", bundle: cwd("work"), denied: "process.cwd: want an absolute path", code: errcode.BundleInvalid},
		{name: "cwd, a descriptor", bundle: cwd("/proc/self/fd/7"), denied: "process.cwd"},
		{name: "cwd, a descriptor by way of the root", bundle: cwd("//proc/self/fd/7/"), denied: "process.cwd"},
		{name: "cwd, up and down", bundle: cwd("/a/../proc/self/fd/7"), denied: "process.cwd"},
		{name: "cwd, NUL", bundle: cwd("/a\x00"), denied: "process.cwd", code: errcode.BundleInvalid},
		{name: "oom score", bundle: score(500)},
		{name: "oom score, negative", bundle: score(-998), check: func(t *testing.T, r Result) {
			if got := *r.Spec.Process.OOMScoreAdj; got != 0 {
				t.Errorf("got %d, want 0", got)
			}
			wantChange(t, r, "process.oomScoreAdj", Tightened)
		}},
		{name: "oom score, absent", check: func(t *testing.T, r Result) {
			if got := r.Spec.Process.OOMScoreAdj; got == nil || *got != 0 {
				t.Errorf("got %v, want 0", got)
			}
		}},
		{name: "scheduler", bundle: scheduler(specs.Scheduler{Policy: specs.SchedBatch, Nice: 5})},
		{name: "scheduler, realtime", bundle: scheduler(specs.Scheduler{Policy: specs.SchedFIFO}), denied: "process.scheduler.policy"},
		{name: "scheduler, deadline", bundle: scheduler(specs.Scheduler{Policy: specs.SchedOther, Runtime: 1}), denied: "process.scheduler: want no priority"},
		{name: "scheduler, negative nice", bundle: scheduler(specs.Scheduler{Policy: specs.SchedOther, Nice: -1}), denied: "process.scheduler.nice"},
		{name: "scheduler, a flag", bundle: scheduler(specs.Scheduler{Policy: specs.SchedOther, Flags: []specs.LinuxSchedulerFlag{specs.SchedFlagReclaim}}), denied: "process.scheduler.flags"},
		{name: "io priority", bundle: func(s *specs.Spec) { s.Process.IOPriority = &specs.LinuxIOPriority{Class: specs.IOPRIO_CLASS_IDLE} }},
		{name: "io priority, realtime", bundle: func(s *specs.Spec) { s.Process.IOPriority = &specs.LinuxIOPriority{Class: specs.IOPRIO_CLASS_RT} }, denied: "process.ioPriority.class"},
		{name: "apparmor unconfined, where it is required", bundle: func(s *specs.Spec) { s.Process.ApparmorProfile = "unconfined" }, policy: armor, facts: hostArmor, denied: "process.apparmorProfile"},
		{name: "apparmor absent, where it is required", policy: armor, facts: hostArmor, denied: "process.apparmorProfile"},
		{name: "apparmor, where it is required", bundle: func(s *specs.Spec) { s.Process.ApparmorProfile = "docker-default" }, policy: armor, facts: hostArmor},
		{name: "apparmor required, and the host has none", policy: armor, denied: "this host has no AppArmor", code: errcode.CapabilityUnsupported},
		{name: "apparmor unconfined, where nobody minds", bundle: func(s *specs.Spec) { s.Process.ApparmorProfile = "unconfined" }},
	})
}

func TestApplyProcessIsApply(t *testing.T) {
	// An exec gets what init got: the same process through both doors.
	for _, name := range engineBundles {
		s := loadBundle(t, name)
		p := loose()
		f := plainFacts(s)
		r, err := Apply(s, p, f)
		if err != nil {
			t.Fatal(err)
		}
		f.UIDMappings, f.GIDMappings = s.Linux.UIDMappings, s.Linux.GIDMappings
		got, _, err := ApplyProcess(s.Process, p, f)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, r.Spec.Process); diff != "" {
			t.Errorf("%s: got, want: %s", name, diff)
		}
	}
	if _, _, err := ApplyProcess(nil, strict(), Facts{}); err == nil {
		t.Error("got no error for no process, want one")
	}
}

func TestKnownCapabilities(t *testing.T) {
	// CAP_CHECKPOINT_RESTORE is number 40 and the last (linux/capability.h).
	if got := len(known); got != 41 || known[40] != "CAP_CHECKPOINT_RESTORE" {
		t.Errorf("got %d capabilities up to %s, want 41", got, known[len(known)-1])
	}
	if got := common(known, known); len(got) != len(known) {
		t.Errorf("got %d names, want %d: one is there twice", len(got), len(known))
	}
}
