package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// ExecOptions is what an exec may have different from the container's init.
type ExecOptions struct {
	ProcessFile  string // path of a process.json that replaces all below
	Args         []string
	Cwd          string
	Env          []string // appended
	Tty          bool
	User         string  // UID[:GID]; names are the engine's to resolve
	Groups       []int64 // appended
	AppArmor     string
	SelinuxLabel string
	NoNewPrivs   *bool
	Caps         []string // appended to all sets but inheritable
	Cgroups      []string // [CONTROLLER[,CONTROLLER...]:]PATH below the container's cgroup
	IgnorePaused bool
}

// Exec runs a process in the container that exists under the launch's id, and
// returns its exit status, or 0 when detached.
func (l *Launch) Exec(o ExecOptions) (int, error) {
	l.policy = async(l.Host.Policy)
	c, err := l.Host.Load(l.ID)
	if err != nil {
		return -1, err
	}
	if err := c.execable(o.IgnorePaused); err != nil {
		return -1, err
	}
	p, raw, err := c.execProcess(o)
	if err != nil {
		return -1, err
	}
	record, err := c.policy()
	if err != nil {
		return -1, err
	}
	if record != nil {
		if err := l.Host.checkWatched(record); err != nil {
			return -1, err
		}
		if p, err = l.admitExec(c, record, p, raw); err != nil {
			return -1, err
		}
	}
	sub, err := subCgroups(o.Cgroups)
	if err != nil {
		return -1, err
	}
	process, err := newProcess(p)
	if err != nil {
		return -1, err
	}
	process.SubCgroupPaths = sub
	if err := inherit(process, 0, l.PreserveFDs); err != nil {
		return -1, err
	}
	ch := &child{Process: process, terminal: p.Terminal, start: c.c.Start}
	if record != nil {
		if err := checkInherited(process, l, p.Terminal); err != nil {
			return -1, err
		}
		ch.verify = execAudit(record, p.User.UID)
		ch.start = c.explainExec(ch.start)
	}
	return l.process(c.c, ch)
}

func (c *Container) execable(ignorePaused bool) error {
	status, err := c.c.Status()
	switch {
	case err != nil:
		return err
	case status == libcontainer.Stopped:
		return errors.New("cannot exec in a stopped container")
	case status == libcontainer.Paused && !ignorePaused:
		return errors.New("cannot exec in a paused container (use --ignore-paused to override)")
	}
	return nil
}

// execProcess also returns the file that the process was read from, as it was,
// where that was a process.json.
func (c *Container) execProcess(o ExecOptions) (*specs.Process, []byte, error) {
	if o.ProcessFile != "" {
		return readProcess(o.ProcessFile)
	}
	if err := c.chdirBundle(); err != nil {
		return nil, nil, err
	}
	b, err := readConfig()
	if err != nil {
		return nil, nil, err
	}
	if len(o.Args) == 0 {
		return nil, nil, errors.New("exec args cannot be empty")
	}
	if err := o.apply(b.spec.Process); err != nil {
		return nil, nil, err
	}
	return b.spec.Process, nil, spec.ValidateProcess(b.spec.Process)
}

func readProcess(path string) (*specs.Process, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var raw bytes.Buffer
	p, err := spec.ParseProcess(io.TeeReader(f, &raw))
	return p, raw.Bytes(), err
}

// apply turns p, the container's init, into the process that was asked for.
func (o *ExecOptions) apply(p *specs.Process) error {
	p.Args = o.Args
	p.Terminal = o.Tty
	p.Env = append(p.Env, o.Env...)
	replace(&p.Cwd, o.Cwd)
	replace(&p.ApparmorProfile, o.AppArmor)
	replace(&p.SelinuxLabel, o.SelinuxLabel)
	set(&p.NoNewPrivileges, o.NoNewPrivs)
	if len(o.Caps) > 0 {
		addCaps(p, o.Caps)
	}
	return o.applyUser(&p.User)
}

// maxID is the largest uid or gid; the one above means "unchanged" to setuid(2).
const maxID = 1<<32 - 2

func (o *ExecOptions) applyUser(u *specs.User) error {
	for _, gid := range o.Groups {
		if gid < 0 || gid > maxID {
			return fmt.Errorf("additional-gids must be a positive number %d", gid)
		}
		u.AdditionalGids = append(u.AdditionalGids, uint32(gid))
	}
	if o.User == "" {
		return nil
	}
	uid, gid, both := strings.Cut(o.User, ":")
	if both {
		if err := parseID(gid, &u.GID); err != nil {
			return fmt.Errorf("bad gid: %w", err)
		}
	}
	if err := parseID(uid, &u.UID); err != nil {
		return fmt.Errorf("bad uid: %w", err)
	}
	return nil
}

func parseID(s string, id *uint32) error {
	n, err := strconv.ParseUint(s, 10, 32)
	if err == nil && n > maxID {
		err = fmt.Errorf("%d is above %d", n, uint32(maxID))
	}
	if err == nil {
		*id = uint32(n)
	}
	return err
}

func replace(dst *string, value string) {
	if value != "" {
		*dst = value
	}
}

func addCaps(p *specs.Process, caps []string) {
	if p.Capabilities == nil {
		p.Capabilities = &specs.LinuxCapabilities{}
	}
	c := p.Capabilities
	c.Bounding = append(c.Bounding, caps...)
	c.Effective = append(c.Effective, caps...)
	c.Permitted = append(c.Permitted, caps...)
	// An ambient capability must be inheritable too (capabilities(7)), and
	// --cap gives none of those: without any in the bundle it would fail.
	if c.Inheritable != nil {
		c.Ambient = append(c.Ambient, caps...)
	}
}

// subCgroups parses --cgroup: one path for cgroup v2, kept under the key "",
// or paths by controller for v1.
func subCgroups(args []string) (map[string]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	paths := map[string]string{}
	for _, arg := range args {
		controllers, path, ok := strings.Cut(arg, ":")
		if !ok && len(args) > 1 {
			return nil, fmt.Errorf("invalid --cgroup argument: %s (missing <controller>: prefix)", arg)
		}
		if !ok {
			return map[string]string{"": arg}, nil
		}
		for controller := range strings.SplitSeq(controllers, ",") {
			if controller == "" {
				return nil, fmt.Errorf("invalid --cgroup argument: %s (empty <controller> prefix)", arg)
			}
			if _, twice := paths[controller]; twice {
				return nil, fmt.Errorf("invalid --cgroup argument(s): controller %s specified multiple times", controller)
			}
			paths[controller] = path
		}
	}
	return paths, nil
}
