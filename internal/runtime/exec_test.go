package runtime

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func TestSubCgroups(t *testing.T) {
	tests := map[string]struct {
		args []string
		want map[string]string
		err  string
	}{
		"none":               {},
		"v2 path":            {args: []string{"a/b"}, want: map[string]string{"": "a/b"}},
		"v1 controllers":     {args: []string{"cpu,cpuacct:x", "memory:y"}, want: map[string]string{"cpu": "x", "cpuacct": "x", "memory": "y"}},
		"two without prefix": {args: []string{"a", "b"}, err: "missing <controller>: prefix"},
		"empty controller":   {args: []string{"cpu,:x"}, err: "empty <controller> prefix"},
		"controller twice":   {args: []string{"cpu:x", "cpu:y"}, err: "controller cpu specified multiple times"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := subCgroups(tt.args)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(got, tt.want); err != nil || diff != "" {
				t.Errorf("got error %v, diff %s", err, diff)
			}
		})
	}
}

func TestExecOptionsApply(t *testing.T) {
	p := &specs.Process{
		Args: []string{"init"}, Cwd: "/", Env: []string{"A=1"}, Terminal: true, NoNewPrivileges: true,
		Capabilities: &specs.LinuxCapabilities{Bounding: []string{"CAP_KILL"}},
	}
	o := ExecOptions{
		Args: []string{"ls"}, Cwd: "/tmp", Env: []string{"B=2"}, User: "7:8", Groups: []int64{9},
		NoNewPrivs: new(false), Caps: []string{"CAP_CHOWN"},
	}
	if err := o.apply(p); err != nil {
		t.Fatal(err)
	}
	want := &specs.Process{
		Args: []string{"ls"}, Cwd: "/tmp", Env: []string{"A=1", "B=2"},
		User: specs.User{UID: 7, GID: 8, AdditionalGids: []uint32{9}},
		Capabilities: &specs.LinuxCapabilities{
			Bounding: []string{"CAP_KILL", "CAP_CHOWN"}, Effective: []string{"CAP_CHOWN"}, Permitted: []string{"CAP_CHOWN"},
		},
	}
	if diff := cmp.Diff(p, want); diff != "" {
		t.Error(diff)
	}
}

// TestExecCapsWithoutAny: a bundle may have no capabilities object at all,
// which runc's exec --cap answers with a panic.
func TestExecCapsWithoutAny(t *testing.T) {
	p := &specs.Process{}
	addCaps(p, []string{"CAP_KILL"})
	want := &specs.LinuxCapabilities{Bounding: []string{"CAP_KILL"}, Effective: []string{"CAP_KILL"}, Permitted: []string{"CAP_KILL"}}
	if diff := cmp.Diff(p.Capabilities, want); diff != "" {
		t.Error(diff)
	}
}

func TestRlimits(t *testing.T) {
	if got, err := rlimits([]specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 1, Hard: 2}}); err != nil || len(got) != 1 || got[0].Soft != 1 || got[0].Hard != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := rlimits([]specs.POSIXRlimit{{Type: "RLIMIT_X"}}); err == nil || !strings.Contains(err.Error(), "RLIMIT_X") {
		t.Errorf("got %v, want an error with the name", err)
	}
}

func TestApplyUser(t *testing.T) {
	tests := map[string]struct {
		user   string
		groups []int64
		want   specs.User
		err    string
	}{
		"none":           {want: specs.User{UID: 1, GID: 2}},
		"uid":            {user: "0", want: specs.User{GID: 2}},
		"largest":        {user: "4294967294:4294967294", want: specs.User{UID: maxID, GID: maxID}},
		"unchanged":      {user: "4294967295", err: "bad uid: 4294967295 is above 4294967294"},
		"above 32 bits":  {user: "4294967296", err: "bad uid"},
		"negative":       {user: "-1", err: "bad uid"},
		"name":           {user: "nobody", err: "bad uid"},
		"empty uid":      {user: ":5", err: "bad uid"},
		"gid is a name":  {user: "5:x", err: "bad gid"},
		"negative group": {groups: []int64{-1}, err: "additional-gids must be a positive number -1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := specs.User{UID: 1, GID: 2}
			err := (&ExecOptions{User: tt.user, Groups: tt.groups}).applyUser(&got)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(got, tt.want); err != nil || diff != "" {
				t.Errorf("got %v, diff %s", err, diff)
			}
		})
	}
}

func TestCheckOpenFiles(t *testing.T) {
	limit := func(soft uint64) *libcontainer.Process {
		return &libcontainer.Process{Rlimits: []configs.Rlimit{{Type: unix.RLIMIT_NOFILE, Soft: soft, Hard: soft}}}
	}
	for soft, want := range map[uint64]bool{0: false, 17: false, 18: true, 1 << 20: true} {
		if err := checkOpenFiles(limit(soft)); (err == nil) != want {
			t.Errorf("%d: got %v, want ok %v", soft, err, want)
		}
	}
	with := limit(19)
	with.ExtraFiles = make([]*os.File, 2)
	if err := checkOpenFiles(with); err == nil {
		t.Error("inherited files are not counted")
	}
}
