package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
	"github.com/sage-sandbox/sage/spec"
)

// diskPlan is what the disk limit of one container takes. All methods of a nil
// one do nothing: there is no hard limit.
type diskPlan struct {
	mount   *xfs.Mount // open until the end of the create
	request xfs.Request
	managed bool // there is something to be put into a project of sage's
	fresh   bool // an overlay of sage's own over the root file system
	saved   state.Disk
	record  xfs.Record
}

// planDisk puts into the hardened spec what the disk limit needs: a root file
// system, /tmp and /dev/shm that lie in the container's project. It is the last
// part of admission and changes nothing on the host.
func (l *Launch) planDisk(host *spec.Host, a *admission) error {
	s, p := a.result.Spec, a.record.Policy
	if err := a.keepsOffRegistry(host); err != nil || !p.Resources.RequireHardLimits {
		return err
	}
	if isPause(s) {
		// No pod can do without it, and it writes nothing.
		a.change("root.readonly", strconv.FormatBool(s.Root.Readonly), "true", "a pod's sandbox has no disk quota")
		s.Root.Readonly = true
		if !slices.ContainsFunc(a.facts.Mounts, a.writable) {
			return nil
		}
	}
	m, err := xfs.Open(host.QuotaMount)
	if err != nil {
		return err
	}
	a.disk = &diskPlan{mount: m, saved: state.Disk{Mount: m.Path(), Root: realPath(absolute(l.Host.Root))}}
	if err := a.planWorkspaces(uint64(p.Resources.DiskBytes)); err != nil || isPause(s) {
		return err
	}
	return errcode.Wrap(errcode.ResourceLimitsUnsupported, "plan the disk limit", a.planProject(l, host))
}

// keepsOffRegistry refuses to mount what holds the quota registry, or a part of
// it, read-only too: the files of other containers are in there.
func (a *admission) keepsOffRegistry(host *spec.Host) error {
	if host.QuotaMount == "" {
		return nil
	}
	registry := realPath(xfs.Registry(host.QuotaMount))
	overlaps := func(path string) bool { return isBelow(path, registry) || isBelow(registry, path) }
	refuse := func(field, path string) error {
		return errcode.Wrap(errcode.PermissionDenied, "check "+field,
			fmt.Errorf("%s: saw %s, want nothing of %s, nor a directory that it is in: other containers' files are there", field, path, registry))
	}
	if overlaps(a.facts.RootFS) {
		return refuse("root.path", a.facts.RootFS)
	}
	for i, m := range a.result.Spec.Mounts {
		if isBind(&m) && overlaps(m.Source) {
			return refuse(fmt.Sprintf("mounts[%d].source", i), m.Source)
		}
	}
	return nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (a *admission) change(field, was, now, why string) {
	if was != now {
		a.result.Changes = append(a.result.Changes, hardening.Change{Field: field, Action: hardening.Tightened, Was: was, Now: now, Why: why})
	}
}

// planWorkspaces looks at what the bundle mounts writable from the quota mount:
// an administrator must have put it under a project of its own, and what that
// may have is a part of what the container may. A source elsewhere is the host's
// decision: without its write_paths the mount would be read-only.
func (a *admission) planWorkspaces(bytes uint64) error {
	d := a.disk
	left := d.mount.Limit(bytes)
	projects := map[quota.ProjectID]bool{}
	for i, facts := range a.facts.Mounts {
		if a.pins[i] == nil || !a.writable(facts) {
			continue
		}
		w, err := d.mount.VerifyWorkspace(int(a.pins[i].Fd()), d.mount.Limit(bytes), true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("mounts[%d].source: %w", i, err)
		}
		d.saved.Workspaces = append(d.saved.Workspaces, state.Workspace{
			Place: facts.Destination, Project: uint32(w.Project), Bytes: w.Limit.Bytes, Inodes: w.Limit.Inodes,
		})
		if !projects[w.Project] {
			left = left.Less(w.Limit.Bytes, w.Limit.Inodes)
		}
		projects[w.Project] = true
	}
	d.request.Limit = left
	return nil
}

// writable says whether a directory of the host's, as the bundle mounts it, is
// still there and not read-only.
func (a *admission) writable(facts hardening.MountFacts) bool {
	return facts.Kind == hardening.SourceDirectory && slices.ContainsFunc(a.result.Spec.Mounts, func(m specs.Mount) bool {
		return m.Destination == facts.Destination && m.Source == facts.Source && isBind(&m) && !slices.Contains(m.Options, "ro")
	})
}

// leastProject is the smallest project worth to have, in bytes. Where a workspace takes
// all of the limit, /tmp and /dev/shm stay in memory, which counts too.
const leastProject = 1 << 20

func (a *admission) planProject(l *Launch, host *spec.Host) error {
	d := a.disk
	d.request.Owner = xfs.Owner{ID: l.ID, Root: d.saved.Root}
	d.request.Token = xfs.NewToken()
	d.request.IDs = quota.DefaultRange
	if ids := host.ProjectIDs; ids != (spec.IDRange{}) {
		d.request.IDs = quota.Range{First: quota.ProjectID(ids.First), Last: quota.ProjectID(ids.Last)}
	}
	if d.request.Limit.Bytes < leastProject {
		if a.result.Spec.Root.Readonly {
			return nil
		}
		return errors.New("saw a writable root file system and a workspace whose project takes all of the disk limit, want root.readonly or a smaller project")
	}
	if err := a.planRoot(); err != nil {
		return err
	}
	a.planScratch()
	if !d.managed {
		return nil
	}
	return d.request.IDs.Check()
}

// planRoot finds where a writable root file system keeps what is written.
func (a *admission) planRoot() error {
	d := a.disk
	if a.result.Spec.Root.Readonly {
		return nil
	}
	mounts, err := a.allMounts()
	if err != nil {
		return err
	}
	d.managed = true
	d.saved.Places = append(d.saved.Places, "/")
	top := mountAt(mounts, a.facts.RootFS)
	if top != nil && top.fstype == "overlay" {
		d.request.Upper, d.request.Work = top.option("upperdir"), top.option("workdir")
		if d.request.Upper != "" && d.mount.Holds(d.request.Upper) {
			return nil
		}
		d.request.Upper, d.request.Work = "", ""
	} else if top != nil {
		// The engine's snapshot, which it means to find again as its container left it.
		return fmt.Errorf("root.path: saw a root file system of type %s, whose bytes cannot be limited; want overlay with its upper directory on %s, or root.readonly", top.fstype, d.mount.Path())
	}
	d.fresh = true
	d.request.Dirs = append(d.request.Dirs, xfs.Dir{Name: "upper", Mode: 0o755}, xfs.Dir{Name: "work", Mode: 0o700})
	a.change("root", "as the bundle has it", "below an overlay on "+d.mount.Path(), "what is written counts for the disk limit")
	return nil
}

// scratch are the places that are in memory without a disk limit, and the names
// of the directories that take their place (C-08, C-15).
var scratch = map[string]string{"/tmp": "tmp", "/dev/shm": "shm"}

func (a *admission) planScratch() {
	d := a.disk
	for i := range a.result.Spec.Mounts {
		m := &a.result.Spec.Mounts[i]
		name := scratch[m.Destination]
		if name == "" || m.Type != "tmpfs" || slices.Contains(m.Options, "ro") || slices.Contains(d.saved.Places, m.Destination) {
			continue
		}
		dir, options := asDirectory(name, m.Options)
		a.change("mounts", m.Destination+" in memory", m.Destination+" on "+d.mount.Path(), "what is written counts for the disk limit")
		m.Type, m.Source, m.Options = "bind", d.mount.Dir(d.request.Token, name), options
		d.request.Dirs = append(d.request.Dirs, dir)
		d.saved.Places = append(d.saved.Places, m.Destination)
		d.managed = true
	}
}

// asDirectory turns a tmpfs' options into a directory and the options of a bind.
func asDirectory(name string, options []string) (xfs.Dir, []string) {
	dir := xfs.Dir{Name: name, Mode: 0o1777}
	bind := []string{"bind", "rprivate"}
	for _, option := range options {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "mode":
			if mode, err := strconv.ParseUint(value, 8, 12); err == nil {
				dir.Mode = uint32(mode)
			}
		case "uid":
			dir.UID = number(value)
		case "gid":
			dir.GID = number(value)
		case "nosuid", "nodev", "noexec", "nosymfollow":
			bind = append(bind, option)
		}
	}
	return dir, bind
}

// number gives 0 for what tmpfs would refuse.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// mountAt is the uppermost mount at exactly that path, nil for none.
func mountAt(mounts []mountPoint, path string) *mountPoint {
	for i := range slices.Backward(mounts) {
		if mounts[i].path == path {
			return &mounts[i]
		}
	}
	return nil
}

// option is that of a file system's own, "" if it is not there. The kernel
// escapes commas in values, so that they can be told from those between options.
func (m mountPoint) option(name string) string {
	for option := range strings.SplitSeq(m.super, ",") {
		if key, value, ok := strings.Cut(option, "="); ok && key == name {
			return octal(value)
		}
	}
	return ""
}

// octal undoes seq_escape of fs/seq_file.c: a backslash and three octal digits.
func octal(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
