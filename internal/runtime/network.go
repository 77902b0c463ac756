package runtime

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/egress/guard"
	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/fault"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// What stands between a container and the network, in the order in which it is
// made: a folder with the files that are mounted and the processes, which wait
// (reserve), the listening sockets in the container's network namespace, which the
// bridge is given, and the guard on its cgroup (create, once init waits), the proxy
// (start, or with the bridge for run). [Host.endNetwork] undoes it from nothing but
// the container's id.

// network is what a create holds of it until it is done.
type network struct {
	program string          // sage-egress
	sockets *bridge.Sockets // until the bridge has them
	// listening is the network namespace that they are of, as an inode of nsfs.
	listening uint64
	serving   state.Serving
	// guard waits until it is loaded, bridge and proxy until each is started; nil
	// where it was not begun.
	guard         func() (*guard.Loaded, error)
	bridge, proxy func() (*starting, error)
}

func (n *network) close() {
	n.abandon()
	if n.sockets != nil {
		n.sockets.Close()
	}
}

// egressFolder is the one in a container's state directory that only root can
// enter; the others are in it.
const (
	egressFolder    = "egress"
	socketFolder    = "run"          // mounted in the container
	socketFile      = "egress.sock"  // in that
	resolverFile    = "resolv.conf"  // mounted in the container
	controlFile     = "control.sock" // where the bridge is given its proxy
	emptyRoot       = "root"         // of the bridge's and the proxy's file system
	countersFile    = "counters"
	lastWordsSuffix = ".err" // what a bridge or a proxy said before it ended
)

func (h *Host) egressPath(id string, names ...string) string {
	return filepath.Join(append([]string{absolute(h.stateDir(id)), egressFolder}, names...)...)
}

// egressFacts are what the hardening needs to know of files that are made later.
func (l *Launch) egressFacts(v *survey) hardening.EgressFacts {
	return hardening.EgressFacts{
		Folder: l.Host.egressPath(l.ID, socketFolder), FolderAt: v.resolve(hardening.SocketFolder),
		ResolvConf: l.Host.egressPath(l.ID, resolverFile), ResolvConfAt: v.resolve(hardening.ResolvConf),
		Port: bridge.Port,
	}
}

// planNetwork settles what the container is to have, as the last part of
// admission; nothing on the host is changed.
func (a *admission) planNetwork(host *spec.Host) error {
	p := a.record.Policy
	if p.Network.Mode == spec.NetworkUnrestricted {
		return nil
	}
	net := a.result.Network
	n := &state.Network{
		Guard: net.NoInet == "", Proxy: hardening.Proxied(p.Network.Mode), Own: net.Own, Given: !net.Own && !net.Host,
	}
	a.record.Network = n
	if !n.Guard {
		return nil
	}
	if err := guardable(); err != nil || !n.Proxy {
		return err
	}
	var err error
	if a.network.program, err = egressProgram(); err != nil {
		return err
	}
	n.UID, n.GID, n.AuditDir = int(host.Egress.UID), int(host.Egress.GID), host.AuditDir
	n.Resolver = a.engineResolver()
	if hardening.Transparent(p.Network, n.Own) == "" {
		rules, err := spec.EgressPolicy(p)
		if err != nil {
			return err
		}
		n.Transparent = rules.AllPorts()
	}
	return nil
}

// engineResolver is the file that an engine made for the container's
// resolv.conf. Whoever may write it may decide whom the proxy asks for
// addresses, so one that is not root's is none.
func (a *admission) engineResolver() string {
	for _, m := range a.facts.Mounts {
		if m.Destination == a.facts.Egress.ResolvConfAt && m.Kind == hardening.SourceFile && trust(m.Source, unix.S_IFREG) == nil {
			return m.Source
		}
	}
	return ""
}

// reserveNetwork is called under the host's lock, with the state directory made.
// From its last steps on, the guard and the processes come to be while libcontainer
// makes the container; whatever fails then ends in [admission.abandonNetwork].
func (a *admission) reserveNetwork(l *Launch) error {
	if a == nil || a.record.Network == nil || !a.record.Network.Guard {
		return nil
	}
	if !a.record.Network.Proxy {
		a.loadGuard()
		return nil
	}
	if err := a.reserveServing(l); err != nil {
		return err
	}
	a.loadGuard()
	a.beginServing(l)
	return nil
}

// reserveServing settles the port. In a namespace that others are in too, it is
// the next free one, and the environment has to have it before libcontainer makes
// the container.
func (a *admission) reserveServing(l *Launch) error {
	if err := makeEgressFolder(l.Host.egressPath(l.ID)); err != nil {
		return errcode.Wrap(errcode.EgressUnavailable, "make the folder of the container's proxy", err)
	}
	a.network.serving.Port = bridge.Port
	if a.record.Network.Own {
		return nil
	}
	ns, err := openSharedNet(a.result.Spec)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := a.listen(l, ns); err != nil {
		return err
	}
	a.network.serving.Port = a.network.sockets.Port
	return a.tellPort(a.network.sockets.Port)
}

// makeEgressFolder gives modes that do not depend on the caller's umask.
func makeEgressFolder(dir string) error {
	const resolver = "# Written by sage: names are resolved by the container's own proxy.\nnameserver 198.18.0.1\noptions timeout:2 attempts:2\n"
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{{dir, 0o700}, {filepath.Join(dir, socketFolder), 0o755}, {filepath.Join(dir, emptyRoot), 0o555}} {
		if err := cmp.Or(os.Mkdir(d.path, d.mode), os.Chmod(d.path, d.mode)); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, resolverFile)
	return cmp.Or(os.WriteFile(path, []byte(resolver), 0o644), os.Chmod(path, 0o644))
}

// openSharedNet opens the namespace that the bundle names, or else ours.
func openSharedNet(s *specs.Spec) (*os.File, error) {
	for _, ns := range s.Linux.Namespaces {
		if ns.Type == specs.NetworkNamespace && ns.Path != "" {
			return os.Open(ns.Path)
		}
	}
	return os.Open("/proc/self/ns/net")
}

// tellPort puts another port than the usual one into init's environment.
func (a *admission) tellPort(port uint16) error {
	if port == a.facts.Egress.Port {
		return nil
	}
	facts, s := a.facts, a.result.Spec
	facts.Egress.Port, facts.Egress.Own = port, false
	facts.UIDMappings, facts.GIDMappings = s.Linux.UIDMappings, s.Linux.GIDMappings
	p, _, err := hardening.ApplyProcess(s.Process, a.record.Policy, facts)
	if err == nil {
		s.Process = p
	}
	return err
}

// serveNetwork is called once init waits, and before anyone learns of it. When
// it returns, no packet passes that the guard does not let pass, and whoever
// asks the way out is told that there is none yet.
func (a *admission) serveNetwork(l *Launch, pid int) error {
	n := a.record.Network
	if n == nil || !n.Guard {
		return nil
	}
	group, err := joinGroup(a.cgroups, pid)
	if err != nil {
		return err
	}
	defer group.Close()
	a.network.serving.Cgroup = group.Name()
	if n.Proxy {
		if err := cmp.Or(a.listenFor(l, pid), fault.At("listen")); err != nil {
			return err
		}
		if err := a.giveServing(l, group, pid); err != nil {
			return err
		}
	}
	if err := cmp.Or(a.attachGuard(group), fault.At("guard")); err != nil {
		return err
	}
	if n.Proxy {
		if err := cmp.Or(a.awaitServing(), fault.At("bridge")); err != nil {
			return err
		}
	}
	return state.SaveServing(l.Host.stateDir(l.ID), &a.network.serving)
}

// attached says that somebody could give the container a network before its
// program begins: whoever is between create and start, or a hook of the bundle.
func (a *admission) attached() bool { return a.result.Spec.Hooks != nil }

// listenFor listens in the namespace of init. One that is shared was listened
// in before; that init is in the same is seen to here.
func (a *admission) listenFor(l *Launch, pid int) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	if a.network.sockets == nil {
		return a.listen(l, ns)
	}
	id, err := inode(ns)
	if err == nil && id != a.network.listening {
		err = fmt.Errorf("network namespace: saw init in another one than at the path of the bundle")
	}
	return errcode.Wrap(errcode.EnforcementFailed, "look at the network namespace of init", err)
}

// NetworkSummary says what would stand between a container and the network.
type NetworkSummary struct {
	// NoGuard says why there is no packet guard, "" if there is one.
	NoGuard string `json:"no_guard,omitempty"`
	Proxy   bool   `json:"proxy"`
	// Listens is where the proxy would be asked; in a shared namespace the port is
	// the first that is free.
	Listens string `json:"listens,omitempty"`
	// NoUnix says why the proxy's Unix socket cannot be dialled, "" if it can.
	NoUnix string `json:"no_unix,omitempty"`
	// NoTransparent says why programs that know of no proxy get nowhere, "" if they
	// are served on the ports.
	NoTransparent string   `json:"no_transparent,omitempty"`
	Transparent   []uint16 `json:"transparent_ports,omitempty"`
	DialsFrom     string   `json:"dials_from,omitempty"`
}

func (a *admission) networkSummary() *NetworkSummary {
	n, p := a.record.Network, a.record.Policy.Network
	switch {
	case n == nil:
		return &NetworkSummary{NoGuard: "the mode is unrestricted"}
	case !n.Guard:
		return &NetworkSummary{NoGuard: "no socket of the internet can be made: " + a.result.Network.NoInet}
	case !n.Proxy:
		return &NetworkSummary{}
	}
	s := &NetworkSummary{
		Proxy: true, Listens: fmt.Sprintf("127.0.0.1:%d", bridge.Port), NoUnix: a.result.Network.NoUnix,
		NoTransparent: hardening.Transparent(p, n.Own), Transparent: n.Transparent, DialsFrom: "the host",
	}
	switch {
	case p.Dial == spec.DialEngine || p.Dial == spec.DialAuto && n.Given:
		s.DialsFrom = "the container's network namespace"
	case p.Dial == spec.DialAuto && n.Own:
		s.DialsFrom = "the container's network namespace if the engine gives it a network before start, else the host"
	}
	return s
}
