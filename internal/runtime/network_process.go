package runtime

import (
	"encoding/json"
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

// The descriptors that every process of sage-egress has.
const (
	readyFD  = egress.ConfigFD + 1
	helperFD = readyFD + 1
)

// helperPatience is how long a bridge or a proxy may take until it serves. It
// takes milliseconds on an idle machine.
const helperPatience = 20 * time.Second

// helper is a process of sage-egress to be started.
type helper struct {
	role     string // "bridge" or "proxy"
	program  string
	id       string
	uid, gid int
	document any
	files    []*os.File // from helperFD on
	netns    *os.File   // nil for ours
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

// starting is a helper that does not serve yet.
type starting struct {
	*helper
	cmd          *exec.Cmd
	ready, words *os.File
}

// startHelper starts p in the cgroup of the container's helpers. It is to be
// awaited: several can be on their way at once.
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
	config, err := sealed(p.document)
	if err != nil {
		return nil, err
	}
	defer config.Close()
	s := &starting{helper: p, cmd: p.command(group)}
	if s.words, err = os.OpenFile(h.egressPath(p.id, p.role+lastWordsSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	var write *os.File
	if s.ready, write, err = os.Pipe(); err != nil {
		_ = s.words.Close()
		return nil, err
	}
	s.cmd.Stderr, s.cmd.ExtraFiles = s.words, append([]*os.File{config, write}, p.files...)
	err = confine.StartIn(s.cmd, p.uid, p.gid, p.netns)
	_ = write.Close()
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *starting) close() {
	_ = s.words.Close()
	_ = s.ready.Close()
}

// command has nothing of ours: the process outlives us, and is not for the
// terminal that we may have.
func (p *helper) command(group *os.File) *exec.Cmd {
	cmd := exec.Command(p.program) //nolint:noctx // it outlives whoever could end it
	cmd.Args = []string{"sage-egress", p.role}
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
	return cmd
}

// await waits for the ready byte. A process that has not sent it is ended.
func (s *starting) await() (*state.Process, error) {
	defer s.close()
	_ = s.ready.SetReadDeadline(time.Now().Add(helperPatience))
	var one [1]byte
	_, err := io.ReadFull(s.ready, one[:])
	var who sampler.Process
	if err == nil {
		who, err = sampler.Identify(s.cmd.Process.Pid)
	}
	if err != nil {
		_ = s.cmd.Process.Kill()
		_, _ = s.cmd.Process.Wait()
		return nil, errcode.Wrap(errcode.EgressUnavailable, "start the container's "+s.role, fmt.Errorf("%s %w", lastWords(s.words), err))
	}
	return &state.Process{Pid: who.Pid, Start: who.Start}, s.cmd.Process.Release()
}

// lastWords is what a helper said, for an error. It is of sage's own programs,
// which write no byte there that came from the container.
func lastWords(f *os.File) string {
	text := make([]byte, 512)
	n, _ := f.ReadAt(text, 0)
	return strings.TrimSpace(string(text[:n]))
}

// sealed puts the document into memory that nobody can change any more.
func sealed(document any) (*os.File, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("sage-egress", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "sage-egress")
	_, err = f.Write(data)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
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
