package proxy

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/confine"
)

const (
	// maxDescriptors is RLIMIT_NOFILE: four for each of more connections than a
	// profile has, and a reserve.
	maxDescriptors = 8192
	// maxDocument bounds the configuration, in bytes: thousands of rules.
	maxDocument = 4 << 20
	// threads run Go code. Two, so that one busy connection leaves another room.
	threads = 2
	// memory is what the Go runtime tries to stay below, in bytes. It bounds what
	// a container can make this process use before the collector runs.
	memory = 64 << 20
	// collectAt has the collector run after every 2 MiB instead of 4: an idle
	// proxy is to be small, and there is one for each container.
	collectAt = 50
)

// Main is the process "sage-egress proxy": it reads its configuration, gives up
// what it can do, says ready and serves. It ends without an error when the
// container is empty or the bridge is gone, and is never started again.
func Main(ctx context.Context) error {
	confine.Procs(threads)
	debug.SetMemoryLimit(memory)
	debug.SetGCPercent(collectAt)
	config, err := readConfig(egress.ConfigFD)
	if err != nil {
		return err
	}
	if err := confine.CloseOthers(descriptors(config)...); err != nil {
		return err
	}
	if err := confine.Enter(confine.Options{
		Role: confine.Proxy, UID: config.UID, GID: config.GID, Root: config.Root, Files: maxDescriptors,
	}); err != nil {
		return err
	}
	if err := confine.Settle(); err != nil {
		return err
	}
	return Serve(ctx, config)
}

func readConfig(fd int) (egress.ProxyConfig, error) {
	data, err := confine.Document(fd, maxDocument)
	if err != nil {
		return egress.ProxyConfig{}, err
	}
	config, err := egress.Decode[egress.ProxyConfig](data)
	if err == nil && config.Version != egress.ConfigVersion {
		err = fmt.Errorf("configuration: saw version %d, want %d", config.Version, egress.ConfigVersion)
	}
	return config, err
}

func descriptors(c egress.ProxyConfig) []int {
	var fds []int
	for _, fd := range append([]int{c.Ready, c.Control, c.Events, c.Counters}, c.Audit...) {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}
