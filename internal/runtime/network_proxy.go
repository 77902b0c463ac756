package runtime

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/bridge"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/fault"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// auditMax is the size of each of the two files that a proxy's decisions are
// written to in turn, in bytes.
const auditMax = 16 << 20

// openNetwork is called right before the program of a container begins: what is
// to be dialled through is settled now, and the proxy started where it dials
// from. attached says that somebody could have given the container a network
// since it was made. It returns the place, "" without a proxy.
func (h *Host) openNetwork(record *state.Record, pid int, attached bool) (from string, err error) {
	n := record.Network
	proxied := n != nil && n.Proxy
	if proxied {
		if from, err = dialsFrom(n, record.Policy.Network.Dial, pid, attached); err != nil {
			return "", errcode.Wrap(errcode.EnforcementFailed, "look at the container's network", err)
		}
	}
	// Where nothing is dialled through them, what the kernel itself would send by
	// them has no way out either (attacks.md 3).
	closed := proxied && n.Own && from == fromHost && record.Policy.Network.Listen != spec.ListenAny
	if attached && (record.Links || closed) {
		if err := putLinksDown(pid); err != nil {
			return "", errcode.Wrap(errcode.EnforcementFailed, "close the network namespace", err)
		}
	}
	if !proxied {
		return "", nil
	}
	return from, cmp.Or(h.serveFrom(from, record, pid), fault.At("proxy"))
}

// serveFrom starts the proxy, and writes down that it did.
func (h *Host) serveFrom(from string, record *state.Record, pid int) error {
	s, err := state.LoadServing(h.stateDir(record.ID))
	if err != nil {
		return err
	}
	s.DialsFrom = from
	proxy, err := h.startProxy(record, from, pid)
	if err != nil {
		return err
	}
	defer proxy.abandon()
	if err := h.giveProxy(proxy, record, s); err != nil {
		return err
	}
	if s.Proxy, err = proxy.await(); err != nil {
		return err
	}
	return state.SaveServing(h.stateDir(record.ID), s)
}

// startProxy starts it where it is to dial from, which for the host's network
// needs no container.
func (h *Host) startProxy(record *state.Record, from string, pid int) (*starting, error) {
	program, err := egressProgram()
	if err != nil {
		return nil, err
	}
	p := h.newHelper("proxy", program, record)
	if from == fromEngine {
		if p.netns, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
			return nil, err
		}
		defer p.netns.Close()
	}
	s, err := h.startHelper(p)
	if err != nil {
		return nil, err
	}
	// Meanwhile it confines itself.
	if s.config, err = proxyConfig(record, from); err != nil {
		s.abandon()
		return nil, errcode.Wrap(errcode.EgressUnavailable, "configure the container's proxy", err)
	}
	return s, nil
}

// giveProxy gives the proxy the policy, and what it serves with.
func (h *Host) giveProxy(p *starting, record *state.Record, s *state.Serving) error {
	c := p.config
	files, err := h.openProxyFiles(&c, record, s)
	defer closeFiles(files)
	if err != nil {
		return err
	}
	return p.give(c, files)
}

// openProxyFiles opens what the proxy is given: it opens no file itself. What was
// opened is returned with an error, too.
func (h *Host) openProxyFiles(c *egress.ProxyConfig, record *state.Record, s *state.Serving) (files []*os.File, err error) {
	control, err := bridge.Connect(h.egressPath(record.ID, controlFile))
	if err != nil {
		return nil, err
	}
	files = append(files, control)
	open := func(path string, flags int, mode os.FileMode) (int, error) {
		f, err := os.OpenFile(path, flags, mode)
		if err != nil {
			return -1, errcode.Wrap(errcode.EgressUnavailable, "open what the container's proxy is given", err)
		}
		files = append(files, f)
		return helperFD + len(files) - 1, nil
	}
	c.Ready, c.Control = readyFD, helperFD
	if c.Events, err = open(filepath.Join(s.Cgroup, "cgroup.events"), os.O_RDONLY, 0); err != nil {
		return files, err
	}
	counters := h.egressPath(record.ID, countersFile)
	if c.Counters, err = open(counters, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return files, err
	}
	if err := os.Truncate(counters, egress.CountersSize); err != nil {
		return files, err
	}
	for _, path := range egressAudit(record) {
		fd, err := open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
		if err != nil {
			return files, err
		}
		c.Audit = append(c.Audit, fd)
	}
	return files, nil
}

// egressAudit are the files of the proxy's decisions, written in turn.
func egressAudit(record *state.Record) []string {
	dir := record.Network.AuditDir
	if dir == "" {
		return nil
	}
	return []string{filepath.Join(dir, record.ID+".egress.jsonl"), filepath.Join(dir, record.ID+".egress.2.jsonl")}
}

func proxyConfig(record *state.Record, from string) (egress.ProxyConfig, error) {
	rules, err := spec.EgressPolicy(record.Policy)
	if err != nil {
		return egress.ProxyConfig{}, err
	}
	// What the policy says and the namespace does not allow is not there.
	rules.Transparent = len(record.Network.Transparent) > 0
	env, err := addressEnv(record.Policy.Network.Reachable)
	if err != nil {
		return egress.ProxyConfig{}, err
	}
	servers, err := nameservers(record, from)
	if err != nil {
		return egress.ProxyConfig{}, err
	}
	c := egress.ProxyConfig{
		Version: egress.ConfigVersion, AuditMax: auditMax,
		Container: record.ID, Policy: rules, Nameservers: servers, HostAddrs: env.HostAddrs, Reachable: env.Reachable, DialsFrom: from,
	}
	if rules.Upstream != nil && rules.Upstream.Scheme == "https" {
		c.Roots, err = os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	}
	return c, err
}
