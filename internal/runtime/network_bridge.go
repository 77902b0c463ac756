package runtime

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// listen makes the bridge's sockets in a network namespace, on a thread that is
// thrown away afterwards.
func (a *admission) listen(l *Launch, ns *os.File) (err error) {
	n := a.record.Network
	o := bridge.Options{
		Own: n.Own, Transparent: n.Transparent,
		Unix: l.Host.egressPath(l.ID, socketFolder, socketFile), Control: l.Host.egressPath(l.ID, controlFile),
	}
	if a.network.listening, err = inode(ns); err != nil {
		return err
	}
	sys.OnDyingThread(func() {
		if err = os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)); err == nil {
			a.network.sockets, err = bridge.Listen(o)
		}
	})
	return errcode.Wrap(errcode.EgressUnavailable, "listen for the container", err)
}

func inode(f *os.File) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Ino, os.NewSyscallError("fstat", err)
}

// giveBridge gives the bridge the sockets, which are its own from then on. It
// serves as long as group is populated, and the sockets of the cgroup peers, or
// all where that is 0.
func (a *admission) giveBridge(s *starting, l *Launch, group *os.File, peers uint64) error {
	events, err := os.Open(filepath.Join(group.Name(), "cgroup.events"))
	if err != nil {
		return errcode.Wrap(errcode.EgressUnavailable, "start the container's bridge", err)
	}
	c := egress.BridgeConfig{Version: egress.ConfigVersion, Container: l.ID, Ready: readyFD, Events: helperFD, PeerCgroup: peers}
	files := append([]*os.File{events}, a.network.sockets.Inherit(helperFD+1, &c)...)
	defer closeFiles(files)
	return s.give(c, files)
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
