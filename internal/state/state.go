// Package state keeps what sage must remember of a container between its own
// commands: the policy that it was made under and what the kernel is to show
// for it. It lies beside libcontainer's state, which it is not: that says how
// to reach the container, this says what it may do.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Name is the file in a container's state directory, which its deletion
// removes with everything else in there.
const Name = "sage.json"

// version is that of the form of the file. A file of another one was written
// by another sage, and what that one promised cannot be checked here.
const version = 1

// Record is what is kept of one container. Nothing in it is secret, and the
// container's environment and arguments are not in it.
type Record struct {
	Version int         `json:"version"`
	ID      string      `json:"id"`
	Digest  string      `json:"policy_digest"`
	Policy  spec.Policy `json:"policy"`
	// Request is the part of the bundle that the policy was resolved from, so
	// that it can be resolved again.
	Request Request `json:"request"`
	// Posture is what the kernel is to show for the container's init, from
	// create on.
	Posture spec.Posture `json:"posture"`
	// Links are to be put down in the container's network namespace at start:
	// nothing is to be reached through them.
	Links bool `json:"links_down"`
	// Inet says that the container's programs can make sockets of the internet
	// families, so that nothing of the host may listen in their namespace.
	Inet bool `json:"inet_sockets"`
	// Network says what guards and serves the container's network; nil in the
	// mode unrestricted.
	Network *Network `json:"network,omitempty"`
	// Disk says where what the container writes is counted; nil without a hard
	// limit.
	Disk *Disk `json:"disk,omitempty"`
	// Audit is the file that the container's events are appended to, "" for none.
	Audit string `json:"audit,omitempty"`
}

// Request is what of a bundle [spec.Resolve] looks at. It is not a whole
// specs.Spec, whose types encoding/json would learn at every exec.
type Request struct {
	Version     string                `json:"version"`
	Annotations map[string]string     `json:"annotations"`
	Root        *specs.Root           `json:"root"`
	Resources   *specs.LinuxResources `json:"resources"`
}

// Spec is the bundle that the request would be one of.
func (r Request) Spec() *specs.Spec {
	s := &specs.Spec{Version: r.Version, Annotations: r.Annotations, Root: r.Root}
	if r.Resources != nil {
		s.Linux = &specs.Linux{Resources: r.Resources}
	}
	return s
}

// Disk is what the quota of one container is made of. Its project is in the
// registry of the quota mount, by the container's id and Root.
type Disk struct {
	Mount string `json:"mount"`
	Root  string `json:"root"` // of the state directories, resolved
	// Places are directories in the container that must count for its project.
	Places     []string    `json:"places,omitempty"`
	Workspaces []Workspace `json:"workspaces,omitempty"`
}

// Workspace is a directory that counts for a project of the administrator's.
type Workspace struct {
	Place   string `json:"place"` // in the container
	Project uint32 `json:"project"`
	Bytes   uint64 `json:"bytes"` // its hard limits, at create
	Inodes  uint64 `json:"inodes"`
}

// Save writes r to the container's state directory. A reader sees all of it or
// nothing.
func Save(dir string, r *Record) error {
	r.Version, r.Digest = version, r.Policy.Digest()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+Name)
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, Name))
}

// Load reads what [Save] wrote. It returns fs.ErrNotExist for a container that
// sage's policy does not hold for, and [errcode.StateInvalid] for a file that
// does not fit itself.
func Load(dir string) (*Record, error) {
	data, err := os.ReadFile(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r := &Record{}
	if err == nil {
		err = json.Unmarshal(data, r)
	}
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.StateInvalid, "read "+Name, err)
	}
	return r, nil
}

func (r *Record) check() error {
	if r.Version != version {
		return fmt.Errorf("version: saw %d, want %d", r.Version, version)
	}
	if got := r.Policy.Digest(); got != r.Digest {
		return fmt.Errorf("policy: saw one with digest %s, want %s", got, r.Digest)
	}
	return nil
}
