// Package bridge holds every listening socket of a container and hands each
// connection to the container's proxy, as a descriptor: it relays no byte. It
// is a process of its own so that the sockets stay when the proxy does not.
// Then, and while there is none yet, clients get an answer that says so; they
// never get a network without a proxy.
//
// [Listen] makes the sockets, in the runtime; [Main] is the process. Nothing
// that a container does makes it hold more than a fixed number of descriptors
// or wait for anything but the next event: what it does not take stays in the
// kernel's backlog.
package bridge

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/confine"
)

// maxDescriptors is RLIMIT_NOFILE. The bridge itself needs about a hundred; the
// kernel compares the same number with what all bridges of the machine's have
// on its way to their proxies, since they are of one user.
const maxDescriptors = 4096

// maxDocument bounds the configuration, in bytes.
const maxDocument = 64 << 10

// collectAt has the collector run after every 400 KiB instead of 4 MiB: there
// is one small piece of garbage for each connection.
const collectAt = 10

// Main is the process "sage-egress bridge": it gives up what it can do, waits for
// its configuration, says ready and serves until the container is empty. It
// returns early only with an error; then nothing was served.
func Main() error {
	confine.Procs(1)
	if err := confine.Obey(egress.ConfigFD, confine.Bridge, maxDescriptors); err != nil {
		return err
	}
	prepare()
	config, err := readConfig(egress.ConfigFD)
	if err != nil {
		return err
	}
	b, err := newBridge(config)
	if err != nil {
		return err
	}
	if err := sayReady(config.Ready); err != nil {
		return err
	}
	return b.serve()
}

// prepare does what the configuration will need, before it is there: what
// encoding/json does the first time that it meets a type takes a while.
func prepare() {
	if text, err := json.Marshal(egress.BridgeConfig{}); err == nil {
		_, _ = egress.Decode[egress.BridgeConfig](text)
	}
}

func readConfig(socket int) (egress.BridgeConfig, error) {
	data, files, err := confine.Receive(socket, maxDocument)
	if err != nil {
		return egress.BridgeConfig{}, err
	}
	config, err := egress.Decode[egress.BridgeConfig](data)
	if err == nil && config.Version != egress.ConfigVersion {
		err = fmt.Errorf("configuration: saw version %d, want %d", config.Version, egress.ConfigVersion)
	}
	if err == nil && config.PeerCgroup != 0 && config.Diag < 0 {
		err = fmt.Errorf("configuration: saw peer_cgroup without diag, by which peers are told apart")
	}
	if err == nil {
		err = confine.Placed(files, descriptors(&config)...)
	}
	return config, err
}

func descriptors(c *egress.BridgeConfig) []*int {
	fds := []*int{&c.Ready, &c.Control, &c.Events, &c.DNS, &c.Diag}
	for i := range c.Listeners {
		fds = append(fds, &c.Listeners[i].FD)
	}
	return fds
}

func sayReady(fd int) error {
	if _, err := unix.Write(fd, []byte{1}); err != nil {
		return os.NewSyscallError("write(ready)", err)
	}
	return os.NewSyscallError("close", unix.Close(fd))
}
