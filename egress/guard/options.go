package guard

import (
	"errors"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Options say what a container may reach. By the zero value it is nothing, and
// nothing reaches it.
type Options struct {
	// Shared says that the network namespace is not the container's own: what is
	// on lo then belongs to others, too.
	Shared bool `json:"shared,omitempty"`
	// BridgePort is where the bridge listens on 127.0.0.1 and ::1, in the modes
	// with a proxy.
	BridgePort uint16 `json:"bridge_port,omitempty"`
	// Loopback opens 127.0.0.0/8 and ::1 on lo, but for 127.0.0.11, where Docker
	// resolves names for whoever asks. Own namespaces only.
	Loopback bool `json:"loopback,omitempty"`
	// Transparent opens [egress.Synthetic] on lo. Own namespaces only.
	Transparent bool `json:"transparent,omitempty"`
	// Published lets others connect to the container from anywhere (listen: any).
	// It still connects to nobody.
	Published bool `json:"published,omitempty"`
}

// Validate refuses what has no meaning, or would open more than was meant.
func (o Options) Validate() error {
	return errcode.Wrap(errcode.NetworkGuardFailed, "build the network guard", o.check())
}

func (o Options) check() error {
	switch {
	case o.Shared && o.Loopback:
		return errors.New("loopback: saw it in a shared network namespace, want one of the container's own")
	case o.Shared && o.Transparent:
		return errors.New("transparent path: saw it in a shared network namespace, want one of the container's own")
	case o.Transparent && o.BridgePort == 0:
		return errors.New("transparent path: saw it without a bridge, want the bridge's port too")
	}
	return nil
}

// onLo tells whether anything may pass on lo without being published.
func (o Options) onLo() bool { return o.Loopback || o.BridgePort != 0 }

// neighbours tells whether the kernel may ask on the wire for the hardware
// addresses of IPv6 neighbours. It does so by a socket that was made with the
// namespace, so by the container's own cgroup where its init made it, and then
// neither the proxy nor whoever connects to a published port has IPv6 without.
func (o Options) neighbours() bool {
	return !o.Shared && (o.BridgePort != 0 || o.Published)
}

// bindsChecked tells whether a program may take no port by its number. Where the
// namespace is the container's own it may, since nobody reaches it there; in that
// of others it could take away theirs, or that of a bridge which has ended.
func (o Options) bindsChecked() bool { return o.Shared && !o.Published }
