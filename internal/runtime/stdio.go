package runtime

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/utils"
	"github.com/sirupsen/logrus"

	"github.com/sage-sandbox/sage/internal/sampler"
)

// Stdio is the standard streams of the command that was called.
type Stdio struct{ In, Out, Err *os.File }

// streams joins the caller's standard streams to a container process, in one
// of four ways: the process inherits them (detached), they are relayed over
// pipes, over a pseudoterminal of ours, or the terminal's master goes to a
// console socket and we are out of the way.
type streams struct {
	toChild []io.Closer // ends that the process has its own copy of once started
	ours    []io.Closer
	relays  sync.WaitGroup // output that must be drained before we may exit
	term    *terminal
	output  *sampler.Output // nil where output is not counted
	ready   chan error      // the terminal has arrived from the process; nil without one
}

func (l *Launch) openStreams(ch *child, c *libcontainer.Container) (*streams, error) {
	p := ch.Process
	switch {
	case ch.terminal && l.detached():
		return sendConsole(p, l.ConsoleSocket)
	case ch.terminal:
		return openTerminal(p, l.Stdio, ch.output)
	case l.detached():
		p.Stdin, p.Stdout, p.Stderr = l.Stdio.In, l.Stdio.Out, l.Stdio.Err
		return &streams{}, nil
	default:
		return openPipes(p, c, l.Stdio, ch.output)
	}
}

// openPipes gives the process pipes rather than our own files, so that it can
// be checkpointed and never holds a descriptor of the caller's.
func openPipes(p *libcontainer.Process, c *libcontainer.Container, stdio Stdio, output *sampler.Output) (*streams, error) {
	config := c.Config()
	uid, err := config.HostRootUID()
	if err != nil {
		return nil, err
	}
	gid, err := config.HostRootGID()
	if err != nil {
		return nil, err
	}
	pipes, err := p.InitializeIO(uid, gid)
	if err != nil {
		return nil, err
	}
	s := &streams{output: output, ours: []io.Closer{pipes.Stdin, pipes.Stdout, pipes.Stderr}}
	for _, end := range []any{p.Stdin, p.Stdout, p.Stderr} {
		if closer, ok := end.(io.Closer); ok {
			s.toChild = append(s.toChild, closer)
		}
	}
	// Not waited for: a read of our standard input ends when the caller likes.
	go func() {
		_, _ = io.Copy(pipes.Stdin, stdio.In)
		_ = pipes.Stdin.Close()
	}()
	s.relay(stdio.Out, pipes.Stdout)
	s.relay(stdio.Err, pipes.Stderr)
	return s, nil
}

func (s *streams) relay(dst io.Writer, src io.ReadCloser) {
	s.relays.Go(func() {
		_ = s.output.Copy(dst, src)
		_ = src.Close()
	})
}

// counted waits until the last byte is counted, and not for a reader who takes
// his time: what a program wrote just before its end counts, too.
func (s *streams) counted() {
	if s.output == nil {
		return
	}
	if s.term != nil {
		s.term.hangup()
	}
	const patience = 2 * time.Second
	done := make(chan struct{})
	go func() { s.relays.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// sendConsole lets the process send its terminal's master to path itself.
func sendConsole(p *libcontainer.Process, path string) (*streams, error) {
	conn, file, err := dialFile(path)
	if err != nil {
		return nil, err
	}
	p.ConsoleSocket = file
	return &streams{toChild: []io.Closer{conn, file}}, nil
}

// dialFile connects to a Unix stream socket and returns, beside the connection,
// a duplicate of its descriptor that can be inherited.
func dialFile(path string) (net.Conn, *os.File, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	file, err := conn.File()
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, file, nil
}

// openTerminal makes the process send its terminal's master to us.
func openTerminal(p *libcontainer.Process, stdio Stdio, output *sampler.Output) (*streams, error) {
	host, err := hostConsole(stdio)
	if err != nil {
		return nil, err
	}
	parent, child, err := utils.NewSockPair("console")
	if err != nil {
		return nil, err
	}
	p.ConsoleSocket = child
	s := &streams{
		toChild: []io.Closer{child},
		ours:    []io.Closer{parent},
		term:    &terminal{host: host},
		output:  output,
		ready:   make(chan error, 1),
	}
	go func() { s.ready <- s.attach(parent, stdio) }()
	return s, nil
}

// started is called once the process runs and holds its own copies.
func (s *streams) started() error {
	var err error
	if s.ready != nil {
		err = <-s.ready
		s.ready = nil
	}
	closeAll(s.toChild)
	s.toChild = nil
	return err
}

// close drains the output and puts the caller's terminal back as it was.
func (s *streams) close() {
	closeAll(s.toChild)
	if s.ready != nil {
		// Never started. With the process's end closed nothing more can arrive,
		// and the caller's terminal cannot go raw after it was put back.
		if err := <-s.ready; err != nil {
			logrus.Debugf("console socket: %v", err) // the failed start says more
		}
	}
	if s.term != nil {
		s.term.hangup()
	}
	s.relays.Wait()
	closeAll(s.ours)
	if s.term != nil {
		_ = s.term.host.Reset()
	}
}

func closeAll(closers []io.Closer) {
	for _, c := range closers {
		_ = c.Close()
	}
}

// checkConsole refuses flags that cannot be honoured together with the
// bundle's wish for a terminal.
func (l *Launch) checkConsole(terminal bool) error {
	switch {
	case l.detached() && terminal && l.ConsoleSocket == "":
		return errors.New("cannot allocate tty if sage-runtime will detach without setting console socket")
	case (!l.detached() || !terminal) && l.ConsoleSocket != "":
		return errors.New("cannot use console socket if sage-runtime will not detach or allocate tty")
	}
	return nil
}

// openPidfdSocket lets the process send a pidfd of itself to path (Linux 5.3).
func openPidfdSocket(p *libcontainer.Process, path string) (io.Closer, error) {
	conn, file, err := dialFile(path)
	if err != nil {
		return nil, fmt.Errorf("pidfd-socket: %w", err)
	}
	p.PidfdSocket = file
	return conn, nil
}
