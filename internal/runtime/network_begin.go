package runtime

import (
	"encoding/json"
	"os"
	"sync"
)

// beginServing starts the bridge, and the proxy beside it where the program is to
// begin right away and nobody could attach a network until then. Neither needs
// the container until it serves it, so they start while that is made, on another
// processor; what goes wrong with them is known when they are given something.
func (a *admission) beginServing(l *Launch) {
	n, record := &a.network, &a.record
	n.bridge = begin(func() (*starting, error) {
		return l.Host.startHelper(l.Host.newHelper("bridge", n.program, record))
	})
	if l.created || a.attached() {
		return
	}
	from, err := dialsFrom(record.Network, record.Policy.Network.Dial, 0, false)
	if err != nil || from != fromHost {
		return // another namespace's proxy is started when that is there
	}
	n.proxy = begin(func() (*starting, error) {
		s, err := l.Host.startProxy(record, from, 0)
		if err == nil {
			_, _ = json.Marshal(s.config) // as [Launch.ahead] does
		}
		return s, err
	})
}

// begin is [async] for what is waited for more than once.
func begin(f func() (*starting, error)) func() (*starting, error) {
	return sync.OnceValues(async(f))
}

// giveServing gives the bridge its sockets, and the proxy what it needs: that
// one's connection waits in the control socket's backlog until the bridge takes it.
func (a *admission) giveServing(l *Launch, group *os.File, pid int) error {
	n, s := &a.network, &a.network.serving
	// In a namespace of its own, too: another container may join that at any time.
	peers, err := inode(group)
	if err != nil {
		return err
	}
	bridge, err := n.bridge()
	if err == nil {
		err = a.giveBridge(bridge, l, group, peers)
	}
	if err != nil || l.created || a.attached() {
		return err
	}
	if s.DialsFrom, err = dialsFrom(a.record.Network, a.record.Policy.Network.Dial, pid, false); err != nil {
		return err
	}
	if n.proxy == nil {
		n.proxy = begin(func() (*starting, error) { return l.Host.startProxy(&a.record, s.DialsFrom, pid) })
	}
	proxy, err := n.proxy()
	if err == nil {
		err = l.Host.giveProxy(proxy, &a.record, s)
	}
	return err
}

// awaitServing waits until all serve that were given something to.
func (a *admission) awaitServing() error {
	n, s := &a.network, &a.network.serving
	bridge, err := n.bridge()
	if err == nil {
		s.Bridge, err = bridge.await()
	}
	if err != nil || n.proxy == nil {
		return err
	}
	proxy, err := n.proxy()
	if err == nil {
		s.Proxy, err = proxy.await()
	}
	return err
}

// abandonNetwork ends the processes that do not serve yet, so that nothing is
// left of them when the container is taken back.
func (a *admission) abandonNetwork() {
	if a != nil {
		a.network.abandon()
	}
}

func (n *network) abandon() {
	if n.guard != nil {
		if loaded, err := n.guard(); err == nil {
			loaded.Close()
		}
	}
	for _, started := range []func() (*starting, error){n.bridge, n.proxy} {
		if started != nil {
			s, _ := started() // nil on an error
			s.abandon()
		}
	}
}
