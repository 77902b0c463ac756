package runtime

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runc/libcontainer/system"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/fault"
	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/sysmon"
	"github.com/sage-sandbox/sage/spec"
)

// Launch is one command that starts a process: create, run, restore or exec.
type Launch struct {
	Host   *Host
	ID     string
	Bundle string // directory, "" for the current one
	Stdio  Stdio
	Getenv func(string) string

	PidFile       string // absolute
	ConsoleSocket string
	PidfdSocket   string
	PreserveFDs   int
	Detach        bool
	Keep          bool // the container outlives its init's exit, and a failed start
	NoSubreaper   bool
	NoPivot       bool
	NoNewKeyring  bool

	policy  func() (*spec.Host, error) // of the host, read meanwhile; to be called once
	created bool                       // create: leave the process waiting for start
	criu    *CriuOpts                  // restore
}

// Create makes the container and leaves its init waiting for start.
func (l *Launch) Create() error {
	l.created = true
	_, err := l.launch()
	return err
}

// Run makes and starts the container. Unless detached it returns the exit
// status of the container's process, once that has ended.
func (l *Launch) Run() (int, error) { return l.launch() }

// Restore makes the container from a checkpoint, and goes on as [Launch.Run].
func (l *Launch) Restore(opts *CriuOpts) (int, error) {
	l.criu = opts
	return l.launch()
}

// detached says whether we leave before the process does.
func (l *Launch) detached() bool { return l.Detach || l.created }

func (l *Launch) launch() (int, error) {
	l.ahead()
	b, err := l.loadBundle()
	if err != nil {
		return -1, err
	}
	if l.ID == "" {
		return -1, errEmptyID
	}
	a, err := l.admit(b)
	if err != nil {
		return -1, err
	}
	defer a.close()
	if err := fault.At("admit"); err != nil {
		return -1, err
	}
	s, n := b.spec, (*notifier)(nil)
	if a != nil {
		s = a.result.Spec
	} else if n = newNotifier(filepath.Join(l.Host.Root, l.ID), l.Getenv("NOTIFY_SOCKET")); n != nil {
		n.mount(s)
	}
	c, record, err := l.makeContainer(s, a)
	if err != nil {
		return -1, err
	}
	defer record.Close()
	var once sync.Once
	end := func(failed bool) {
		if !l.Keep && (failed || !l.detached()) {
			once.Do(func() {
				_ = a.saved() // or it would write into what is being removed
				a.abandonNetwork()
				l.Host.destroy(c, l.Host.diskAt(l.ID, a.plannedDisk()))
			})
		}
	}
	status := -1
	err = fault.At("reserve")
	if err == nil {
		err = cmp.Or(a.assignDisk(), fault.At("quota"))
	}
	if err == nil {
		status, err = l.launchInit(c, s.Process, a, n, end)
	}
	end(err != nil)
	return status, err
}

func (l *Launch) launchInit(c *libcontainer.Container, p *specs.Process, a *admission, n *notifier, end func(failed bool)) (int, error) {
	if n != nil {
		if err := n.mkdir(); err != nil {
			return -1, err
		}
		if !l.created {
			if err := n.bind(); err != nil {
				return -1, err
			}
		}
	}
	process, err := newProcess(p)
	if err != nil {
		return -1, err
	}
	process.Init = true
	if err := inherit(process, listenFDs(l.Getenv), l.PreserveFDs); err != nil {
		return -1, err
	}
	if err := checkOpenFiles(process); err != nil {
		return -1, err
	}
	if err := a.checkInherited(process, l, p.Terminal); err != nil {
		return -1, err
	}
	if !l.NoSubreaper {
		// Orphans of a container without a pid namespace come to us, see reap.
		if err := system.SetSubreaper(1); err != nil {
			logrus.Warn(err)
		}
	}
	ch := &child{Process: process, terminal: p.Terminal, start: c.Start, notify: n, end: end}
	switch {
	case l.criu != nil:
		ch.start = func(p *libcontainer.Process) error { return c.Restore(p, l.criu) }
	case !l.created:
		ch.release = c.Exec
	}
	a.watch(l, c, ch)
	return l.process(c, ch)
}

// child is a process to start and to see through.
type child struct {
	*libcontainer.Process
	terminal bool
	start    func(*libcontainer.Process) error
	// verify reads back what was to be enforced, before anyone learns of the
	// process; nil where there is no policy.
	verify  func(pid int) error
	release func() error // lets a waiting init execute its program; nil if none waits for us
	notify  *notifier
	// output counts what the process writes; nil where there is no limit.
	output *sampler.Output
	// ended learns the exit status, where we wait for it; nil where nobody asks.
	ended func(pid, status int) error
	// end is called once the process is no more, before its output is drained:
	// without a pid namespace, others may hold the pipes open until the end of
	// the container ends them. nil for an exec, whose container goes on.
	end func(failed bool)
}

// process starts ch and sees it through: to its end, or to where a detached
// command leaves it.
func (l *Launch) process(c *libcontainer.Container, ch *child) (int, error) {
	if err := l.checkConsole(ch.terminal); err != nil {
		return -1, err
	}
	var signals *relay
	if l.detached() {
		holdSignals()
	} else {
		signals = newRelay()
	}
	io, err := l.openStreams(ch, c)
	if err != nil {
		return -1, err
	}
	defer io.close()
	if l.PidfdSocket != "" {
		conn, err := openPidfdSocket(ch.Process, l.PidfdSocket)
		if err != nil {
			return -1, err
		}
		defer conn.Close()
	}
	if err := sysmon.Exact(func() error { return ch.start(ch.Process) }); err != nil {
		return -1, err
	}
	status, err := l.attend(ch, io, signals)
	if err != nil {
		_ = ch.Signal(unix.SIGKILL)
		_, _ = ch.Wait()
	}
	if err == nil && !l.detached() && ch.ended != nil {
		pid, _ := ch.Pid() // known, as it was started
		io.counted()
		err = ch.ended(pid, status)
	}
	if ch.end != nil {
		ch.end(err != nil)
	}
	return status, err
}

// attend looks after a process that is there. On an error it still is.
func (l *Launch) attend(ch *child, io *streams, signals *relay) (int, error) {
	pid, err := l.release(ch, io)
	if err != nil {
		return -1, err
	}
	bound := ch.notify != nil && ch.notify.sock != nil
	if l.detached() {
		if bound {
			// The manager may be gone; that is no reason to end the container.
			_ = ch.notify.relay(pid, pid)
		}
		return 0, nil
	}
	if bound {
		// The service manager watches us, who pass everything on.
		go func() { _ = ch.notify.relay(pid, os.Getpid()) }()
	}
	return signals.wait(ch.Process, io.term)
}

// release lets the program begin once its terminal is set up and its pid is
// written. Earlier, its first line could end in CR LF and a reader of the pid
// file could come too late.
func (l *Launch) release(ch *child, io *streams) (pid int, err error) {
	if err := io.started(); err != nil {
		return -1, err
	}
	if pid, err = ch.Pid(); err != nil {
		return -1, err
	}
	if ch.verify != nil {
		if err := ch.verify(pid); err != nil {
			return -1, err
		}
	}
	if l.PidFile != "" {
		if err := writePidFile(l.PidFile, pid); err != nil {
			return -1, err
		}
	}
	if ch.release != nil {
		err = sysmon.Exact(ch.release)
	}
	return pid, err
}

// destroy takes back all that was made. Its failure is worth a warning only:
// the caller has an error or an exit status to return that says more.
func (h *Host) destroy(c *libcontainer.Container, d *disk) {
	id := c.ID() // its directory goes
	err := errors.Join(sysmon.Exact(c.Destroy), h.endNetwork(id))
	if err == nil {
		err = d.release()
	}
	if err != nil {
		logrus.Warn(err)
	}
}

// makeContainer reserves the id and writes down what [Host.Delete] needs to
// clean up should this process be killed before libcontainer saves its state.
// The record is to be closed once the container is made.
func (l *Launch) makeContainer(s *specs.Spec, a *admission) (*libcontainer.Container, *os.File, error) {
	config, err := specconv.CreateLibcontainerConfig(&specconv.CreateOpts{
		CgroupName:       l.ID,
		UseSystemdCgroup: l.Host.SystemdCgroup || s.Linux != nil && spec.IsSystemdPath(s.Linux.CgroupsPath),
		NoPivotRoot:      l.NoPivot,
		NoNewKeyring:     l.NoNewKeyring,
		Spec:             s,
		RootlessEUID:     os.Geteuid() != 0,
		RootlessCgroups:  l.Host.rootlessCgroups(),
	})
	if err != nil {
		return nil, nil, err
	}
	a.configure(config)
	unlock, err := l.Host.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	c, err := libcontainer.Create(l.Host.Root, l.ID, config)
	if err != nil {
		return nil, nil, a.explainCreate(l.explainCreate(err))
	}
	record, err := l.record(c, a)
	if err != nil {
		// Not destroyed: nothing but its directory is there, and a cgroup that it
		// names may be another's.
		return nil, nil, errors.Join(err, os.RemoveAll(filepath.Join(l.Host.Root, l.ID)))
	}
	return c, record, nil
}

func (l *Launch) record(c *libcontainer.Container, a *admission) (*os.File, error) {
	state, err := c.State()
	if err != nil {
		return nil, err
	}
	if err := a.reserve(state); err != nil {
		return nil, err
	}
	record, err := writePending(l.Host.Root, l.ID, state, a != nil) // reserve saw to it
	if err == nil {
		if err = a.reserveNetwork(l); err != nil {
			record.Close()
			return nil, err
		}
		a.save(filepath.Join(l.Host.Root, l.ID))
	}
	return record, err
}

// explainCreate gives the loser of a race for one id the reason that it would
// have got a moment later.
func (l *Launch) explainCreate(err error) error {
	if errors.Is(err, libcontainer.ErrInvalidID) {
		return err
	}
	if _, statErr := os.Stat(filepath.Join(l.Host.Root, l.ID)); statErr == nil {
		return libcontainer.ErrExist
	}
	return err
}

// writePidFile writes pid in decimal, so that a reader sees all of it or none.
func writePidFile(path string, pid int) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid()))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.Itoa(pid))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}
