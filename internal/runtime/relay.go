package runtime

import (
	"errors"
	"os"
	"os/signal"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/utils"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// signalBacklog is how many signals may wait while the container is being
// made; os/signal drops what does not fit.
const signalBacklog = 2048

// relay passes the signals that we get on to a container process, and reaps.
type relay struct {
	signals chan os.Signal
	all     chan struct{} // closed once every signal is caught
}

// newRelay starts to catch signals. SIGCHLD must be caught before the process
// exists, or its exit is lost; SIGHUP and SIGINT, too, or one that was ignored
// here (nohup) is ignored in the container. Catching the other sixty takes
// 0.2 ms of system calls, which a second thread spends while libcontainer works.
func newRelay() *relay {
	r := &relay{signals: make(chan os.Signal, signalBacklog), all: make(chan struct{})}
	signal.Notify(r.signals, unix.SIGCHLD, unix.SIGHUP, unix.SIGINT)
	go func() {
		signal.Notify(r.signals)
		close(r.all)
	}()
	return r
}

// holdSignals keeps a half-made container from being left behind by a polite
// signal: a detached command has nobody to pass it to and finishes first.
func holdSignals() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM)
}

// wait returns the exit status of p, having passed on every signal until then.
func (r *relay) wait(p *libcontainer.Process, t *terminal) (int, error) {
	<-r.all
	pid, err := p.Pid()
	if err != nil {
		return -1, err
	}
	t.resize()
	for s := range r.signals {
		switch s {
		case unix.SIGWINCH:
			t.resize()
		case unix.SIGURG:
			// The Go runtime sends it to its own threads to preempt them.
		case unix.SIGCHLD:
			if status, gone := reap(pid); gone {
				// Already reaped, but Wait also flushes what libcontainer holds.
				_, _ = p.Wait()
				return status, nil
			}
		default:
			if number, ok := s.(unix.Signal); ok {
				logrus.Debugf("forwarding signal %d (%s) to %d", int(number), unix.SignalName(number), pid)
			}
			if err := p.Signal(s); err != nil {
				logrus.Error(err)
			}
		}
	}
	return -1, errors.New("signal channel closed")
}

// reap collects every child that has ended: as a subreaper (prctl(2)) we get
// orphans of the container too, when it has no pid namespace of its own.
func reap(pid int) (status int, gone bool) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || got <= 0 {
			return status, gone
		}
		logrus.WithFields(logrus.Fields{"pid": got, "status": utils.ExitStatus(ws)}).Debug("process exited")
		if got == pid {
			status, gone = utils.ExitStatus(ws), true
		}
	}
}
