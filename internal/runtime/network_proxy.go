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
	if attached && (record.Links || proxied && n.Own && from == fromHost) {
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
	proxy, err := h.startProxy(record, s, pid)
	if err != nil {
		return err
	}
	if s.Proxy, err = proxy.await(); err != nil {
		return err
	}
	return state.SaveServing(h.stateDir(record.ID), s)
}

func (h *Host) startProxy(record *state.Record, s *state.Serving, pid int) (*starting, error) {
	program, err := egressProgram()
	if err != nil {
		return nil, err
	}
	c, err := proxyConfig(record, s.DialsFrom)
	if err != nil {
		return nil, errcode.Wrap(errcode.EgressUnavailable, "configure the container's proxy", err)
	}
	c.Root = h.egressPath(record.ID, emptyRoot)
	p := &helper{role: "proxy", program: program, id: record.ID, uid: c.UID, gid: c.GID}
	defer func() { closeFiles(p.files) }()
	if err := h.openProxyFiles(p, &c, record, s); err != nil {
		return nil, err
	}
	if s.DialsFrom == fromEngine {
		if p.netns, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
			return nil, err
		}
		defer p.netns.Close()
	}
	p.document = c
	return h.startHelper(p)
}

// openProxyFiles opens what the proxy is given: it opens no file itself.
func (h *Host) openProxyFiles(p *helper, c *egress.ProxyConfig, record *state.Record, s *state.Serving) error {
	control, err := bridge.Connect(h.egressPath(record.ID, controlFile))
	if err != nil {
		return err
	}
	p.files = []*os.File{control}
	open := func(path string, flags int, mode os.FileMode) (int, error) {
		f, err := os.OpenFile(path, flags, mode)
		if err != nil {
			return -1, errcode.Wrap(errcode.EgressUnavailable, "open what the container's proxy is given", err)
		}
		p.files = append(p.files, f)
		return helperFD + len(p.files) - 1, nil
	}
	c.Ready, c.Control = readyFD, helperFD
	if c.Events, err = open(filepath.Join(s.Cgroup, "cgroup.events"), os.O_RDONLY, 0); err != nil {
		return err
	}
	counters := h.egressPath(record.ID, countersFile)
	if c.Counters, err = open(counters, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(counters, egress.CountersSize); err != nil {
		return err
	}
	for _, path := range egressAudit(record) {
		fd, err := open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
		if err != nil {
			return err
		}
		c.Audit = append(c.Audit, fd)
	}
	return nil
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
		Version: egress.ConfigVersion, UID: record.Network.UID, GID: record.Network.GID, AuditMax: auditMax,
		Container: record.ID, Policy: rules, Nameservers: servers, HostAddrs: env.HostAddrs, Reachable: env.Reachable, DialsFrom: from,
	}
	if rules.Upstream != nil && rules.Upstream.Scheme == "https" {
		c.Roots, err = os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	}
	return c, err
}
