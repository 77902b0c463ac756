package runtime

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/confine"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
)

// helperPatience is how long a bridge or a proxy may take until it serves. It
// takes milliseconds on an idle machine.
const helperPatience = 20 * time.Second

// helper is a process of sage-egress to be started.
type helper struct {
	role    string // "bridge" or "proxy"
	program string
	id      string
	who     confine.Identity
	netns   *os.File // nil for ours
}

func (h *Host) newHelper(role, program string, record *state.Record) *helper {
	n := record.Network
	return &helper{
		role: role, program: program, id: record.ID,
		who: confine.Identity{UID: n.UID, GID: n.GID, Root: h.egressPath(record.ID, emptyRoot)},
	}
}

// egressProgram finds sage-egress beside this program, and nowhere else: it
// gets the container's connections, so whoever could write it would have those.
func egressProgram() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	path := filepath.Join(filepath.Dir(exe), "sage-egress")
	if err == nil {
		err = trustPath(path)
	}
	return path, errcode.Wrap(errcode.CapabilityUnsupported, "find the program of the container's proxy, which is installed beside sage-runtime", err)
}

// trustPath is [trustFile] for one that is not open.
func trustPath(path string) error {
	f, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return trustFile(f)
}

// starting is a helper that does not serve yet. It has been started and makes
// itself small; then it waits to be given what it is to serve, and ends if that
// does not come.
type starting struct {
	*helper
	cmd    *exec.Cmd
	orders *confine.Orders
	words  *os.File
	ready  *os.File           // once it has been given something
	config egress.ProxyConfig // of a proxy, without its descriptors
}

// startHelper starts p in the cgroup of the container's helpers. It is to be
// given something and awaited, several at once if need be, or else abandoned.
func (h *Host) startHelper(p *helper) (*starting, error) {
	s, err := h.tryHelper(p)
	return s, errcode.Wrap(errcode.EgressUnavailable, "start the container's "+p.role, err)
}

func (h *Host) tryHelper(p *helper) (*starting, error) {
	group, err := h.makeHelperGroup(p.id)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	s := &starting{helper: p, cmd: p.command(group)}
	if s.words, err = os.OpenFile(h.egressPath(p.id, p.role+lastWordsSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	s.cmd.Stderr = s.words
	if s.orders, err = confine.Launch(s.cmd, p.who, p.netns); err != nil {
		_ = s.words.Close()
		return nil, err
	}
	return s, nil
}

// give tells the helper what to serve, with the descriptors that the document
// speaks of by their places. The pipe for its ready byte is put first.
func (s *starting) give(document any, files []*os.File) error {
	ready, write, err := os.Pipe()
	if err == nil {
		defer write.Close()
		s.ready = ready
		err = s.orders.Give(document, append([]*os.File{write}, files...))
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// readyFD is the place of the pipe that give makes, and helperFD the next one.
const (
	readyFD  = 0
	helperFD = readyFD + 1
)

// abandon ends a helper that is not awaited. Nothing happens to one that was, or
// to none.
func (s *starting) abandon() {
	if s == nil || s.orders == nil {
		return
	}
	s.orders.Close()
	_ = s.words.Close()
	if s.ready != nil {
		_ = s.ready.Close()
	}
	_ = s.cmd.Process.Kill()
	_, _ = s.cmd.Process.Wait()
	s.orders = nil
}

// command has nothing of ours: the process outlives us, and is not for the
// terminal that we may have. It begins with one thread that runs Go code, however
// many processors there are: the fewer it has, the quicker it is confined.
func (p *helper) command(group *os.File) *exec.Cmd {
	cmd := exec.Command(p.program) //nolint:noctx // it outlives whoever could end it
	cmd.Args = []string{"sage-egress", p.role}
	cmd.Env, cmd.Dir = []string{"GOMAXPROCS=1"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
	return cmd
}

// await waits for the ready byte. A process that has not sent it is ended.
func (s *starting) await() (*state.Process, error) {
	_ = s.ready.SetReadDeadline(time.Now().Add(helperPatience))
	var one [1]byte
	_, err := io.ReadFull(s.ready, one[:])
	var who sampler.Process
	if err == nil {
		who, err = sampler.Identify(s.cmd.Process.Pid)
	}
	if err != nil {
		return nil, s.failed(err)
	}
	_, _ = s.words.Close(), s.ready.Close()
	s.orders = nil
	return &state.Process{Pid: who.Pid, Start: who.Start}, s.cmd.Process.Release()
}

// failed ends the helper, and has its last words in the error.
func (s *starting) failed(err error) error {
	_ = s.cmd.Process.Kill()
	_, _ = s.cmd.Process.Wait() // or it would not have said them yet
	err = errcode.Wrap(errcode.EgressUnavailable, "start the container's "+s.role, fmt.Errorf("%s %w", lastWords(s.words), err))
	s.abandon()
	return err
}

// lastWords is what a helper said, for an error. It is of sage's own programs,
// which write no byte there that came from the container.
func lastWords(f *os.File) string {
	text := make([]byte, 512)
	n, _ := f.ReadAt(text, 0)
	return strings.TrimSpace(string(text[:n]))
}

// lives says whether a bridge or a proxy is there.
func lives(p *state.Process) error {
	switch {
	case p == nil:
		return errors.New("was not started")
	case !(sampler.Process{Pid: p.Pid, Start: p.Start}).Alive():
		return fmt.Errorf("process %d has ended", p.Pid)
	}
	return nil
}
