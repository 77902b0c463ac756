package bridge

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
)

// Close closes the sockets; the bridge's own copies are not touched.
func (s *Sockets) Close() {
	s.closeTCP()
	for _, fd := range []*int{&s.Unix, &s.Control, &s.DNS, &s.Diag} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
}

func (s *Sockets) closeTCP() {
	for _, l := range s.TCP {
		_ = unix.Close(l.FD)
	}
	s.TCP = nil
}

// Inherit moves the sockets into files in the order in which a bridge is to
// get them, the first in place first, and writes their places into the
// configuration. The files are the caller's to close; s is empty afterwards.
func (s *Sockets) Inherit(first int, c *egress.BridgeConfig) []*os.File {
	var files []*os.File
	next := func(fd *int) int {
		if *fd < 0 {
			return -1
		}
		files = append(files, os.NewFile(uintptr(*fd), "socket"))
		*fd = -1
		return first + len(files) - 1
	}
	c.Listeners = nil
	for _, l := range append(s.TCP, Listener{s.Unix, egress.KindUnix}) {
		c.Listeners = append(c.Listeners, egress.BridgeListener{FD: next(&l.FD), Kind: l.Kind})
	}
	s.TCP, s.Unix = nil, -1
	c.Control, c.DNS, c.Diag = next(&s.Control), next(&s.DNS), next(&s.Diag)
	return files
}
