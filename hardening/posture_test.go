package hardening

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// Proves: S-013.
func TestExpected(t *testing.T) {
	kill := []string{"CAP_KILL"}
	p := strict()
	p.Process.Capabilities = kill
	files := map[string]spec.Rlimit{"RLIMIT_CORE": {}, "RLIMIT_NOFILE": {Soft: 1024, Hard: 1024}}
	for _, c := range []struct {
		name   string
		bundle string
		change func(s *specs.Spec)
		want   spec.Posture
	}{
		{
			name: "Docker's default", bundle: "docker",
			want: spec.Posture{
				NoNewPrivs: true, Seccomp: 2, Filters: 2, Bounding: kill, Effective: kill, Permitted: kill, Groups: []uint32{0},
				OwnNamespaces: []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"}, Rlimits: files,
			},
		},
		{
			name: "no profile of the bundle's, another user", bundle: "docker",
			change: func(s *specs.Spec) {
				s.Linux.Seccomp = &specs.LinuxSeccomp{}
				s.Process.User = specs.User{UID: 1000, GID: 100, AdditionalGids: []uint32{30, 20}}
				s.Process.ApparmorProfile, s.Process.OOMScoreAdj = "docker-default", new(7)
			},
			want: spec.Posture{
				NoNewPrivs: true, Seccomp: 2, Filters: 1, Bounding: kill, UID: 1000, GID: 100, Groups: []uint32{20, 30},
				OwnNamespaces: []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"}, Rlimits: files,
				AppArmor: "docker-default", OOMScoreAdj: 7,
			},
		},
		{
			name: "a user namespace", bundle: "ctr-userns",
			change: func(s *specs.Spec) { s.Process.User.AdditionalGids = []uint32{5} },
			want: spec.Posture{
				NoNewPrivs: true, Seccomp: 2, Filters: 1, Bounding: kill, Effective: kill, Permitted: kill,
				UID: 100000, GID: 100000, Groups: []uint32{100005},
				OwnNamespaces: []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}, Rlimits: files,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := loadBundle(t, c.bundle)
			if c.change != nil {
				c.change(s)
			}
			if c.bundle == "ctr-userns" {
				mapping := []specs.LinuxIDMapping{{HostID: 100000, Size: 65536}}
				s.Linux.UIDMappings, s.Linux.GIDMappings = mapping, mapping
			}
			r, err := Apply(s, p, plainFacts(s))
			if err != nil {
				t.Fatal(err)
			}
			c.want.Layer2 = r.Filter.Digest()
			if diff := cmp.Diff(Expected(r.Spec.Process, r.Spec, p, r.Filter), c.want); diff != "" {
				t.Errorf("got, want: %s", diff)
			}
		})
	}
}

// What the policy lacks is not expected, even of a process that has it: then
// the comparison with the kernel fails, as it must.
func TestExpectedAsksThePolicy(t *testing.T) {
	s := bundle()
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: known, Effective: known, Permitted: known}
	r, err := Apply(s, strict(), plainFacts(s))
	if err != nil {
		t.Fatal(err)
	}
	if got := Expected(s.Process, r.Spec, strict(), r.Filter); len(got.Bounding)+len(got.Effective)+len(got.Permitted) != 0 {
		t.Errorf("got %v, want no capability", got)
	}
}
