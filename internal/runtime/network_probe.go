package runtime

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/egress/guard"
	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/spec"
)

// ProbeEgress finds out by trying what the modes with a network need, beyond
// what [doctor.Check] tries, and leaves nothing behind.
func ProbeEgress(host *spec.Host) []doctor.Finding {
	return []doctor.Finding{
		egressFinding("packet guard", "programs for IPv4 and IPv6 can be attached to a cgroup", cmp.Or(guardable(), guard.Supported()),
			"boot Linux 5.14 or later with CONFIG_CGROUP_BPF, mount cgroup v2 writable, and run as root"),
		egressFinding("bridge and proxy", "both start, confined, and refuse what no rule allows", probeServing(host),
			"install sage-egress beside sage-runtime, writable for root alone, and see the message"),
	}
}

func egressFinding(name, seen string, err error, do string) doctor.Finding {
	f := doctor.Finding{Name: name, OK: err == nil, Level: doctor.LevelEgress, Seen: seen}
	if err != nil {
		f.Seen, f.Do = err.Error(), do
	}
	return f
}

// probeServing has a bridge and a proxy serve a network namespace that is made
// for them, and asks them for something.
func probeServing(host *spec.Host) (err error) {
	root, err := os.MkdirTemp("", "sage-check")
	if err != nil {
		return err
	}
	const id = "check"
	h := &Host{Root: root}
	defer func() { err = cmp.Or(err, h.endNetwork(id), os.RemoveAll(root)) }()
	p := &probe{l: &Launch{Host: h, ID: id}, a: &admission{}}
	p.a.record = state.Record{ID: id, Network: &state.Network{Own: true, Proxy: true, UID: int(host.Egress.UID), GID: int(host.Egress.GID)}}
	p.a.record.Policy.Network = spec.Network{Mode: spec.NetworkAllowlist, MaxConnections: 1, MaxActive: 1, MaxWallTimeSeconds: 10}
	if p.a.network.program, err = egressProgram(); err != nil {
		return err
	}
	defer p.a.network.close()
	if err := cmp.Or(os.Mkdir(h.stateDir(id), 0o700), makeEgressFolder(h.egressPath(id)), p.makeNamespace()); err != nil {
		return err
	}
	defer p.ns.Close()
	return cmp.Or(p.a.listen(p.l, p.ns), p.bridge(), p.ask(errcode.EgressUnavailable), p.proxy(), p.ask(errcode.EgressHostDenied))
}

type probe struct {
	l  *Launch
	a  *admission
	ns *os.File
}

func (p *probe) makeNamespace() (err error) {
	sys.OnDyingThread(func() {
		if err = os.NewSyscallError("unshare(CLONE_NEWNET)", unix.Unshare(unix.CLONE_NEWNET)); err == nil {
			p.ns, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	return err
}

// bridge is told to serve as long as its own cgroup is populated.
func (p *probe) bridge() error {
	group, err := p.l.Host.makeHelperGroup(p.l.ID)
	if err != nil {
		return err
	}
	defer group.Close()
	p.a.network.serving.Cgroup = group.Name()
	s, err := p.l.Host.startHelper(p.l.Host.newHelper("bridge", p.a.network.program, &p.a.record))
	if err != nil {
		return err
	}
	defer s.abandon()
	if err = p.a.giveBridge(s, p.l, group, 0); err == nil {
		_, err = s.await()
	}
	return err
}

func (p *probe) proxy() error {
	s := &p.a.network.serving
	s.DialsFrom = fromHost
	started, err := p.l.Host.startProxy(&p.a.record, fromHost, 0)
	if err != nil {
		return err
	}
	defer started.abandon()
	if err = p.l.Host.giveProxy(started, &p.a.record, s); err == nil {
		_, err = started.await()
	}
	return err
}

// ask wants a refusal for that reason, from the socket that containers have.
func (p *probe) ask(want errcode.Code) error {
	var conn net.Conn
	var err error
	sys.OnDyingThread(func() {
		if err = os.NewSyscallError("setns", unix.Setns(int(p.ns.Fd()), unix.CLONE_NEWNET)); err == nil {
			conn, err = net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", bridge.Port), time.Second) //nolint:noctx // of a second
		}
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprint(conn, "CONNECT check.invalid:443 HTTP/1.1\r\nHost: check.invalid:443\r\n\r\n"); err != nil {
		return err
	}
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return errors.New("saw an answer without X-Sage-Deny")
		}
		if code, ok := strings.CutPrefix(strings.TrimSpace(line), "X-Sage-Deny: "); ok && code != string(want) {
			return fmt.Errorf("saw the answer %s, want %s", code, want)
		} else if ok {
			return nil
		}
	}
}
