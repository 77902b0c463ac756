package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/confine"
)

const (
	// maxDescriptors is RLIMIT_NOFILE: four for each of more connections than a
	// profile has, and a reserve.
	maxDescriptors = 8192
	// maxDocument bounds the configuration, in bytes: thousands of rules.
	maxDocument = 4 << 20
	// threads run Go code. With one no connection is passed from thread to thread,
	// each time to be waited for: a request takes a third less. One that always
	// has something to move gives the others a turn every 10 ms, see toldEach.
	threads = 1
	// memory is what the Go runtime tries to stay below, in bytes. It bounds what
	// a container can make this process use before the collector runs.
	memory = 64 << 20
	// collectAt has the collector run after every 2 MiB instead of 4: an idle
	// proxy is to be small, and there is one for each container.
	collectAt = 50
	// settled is how long after its start the process gives back what only that
	// needed: until then the container starts, and its program has more use for
	// the processor.
	settled = time.Second
)

// Main is the process "sage-egress proxy": it gives up what it can do, waits for
// its configuration, says ready and serves. It ends without an error when the
// container is empty or the bridge is gone, and is never started again.
func Main(ctx context.Context) error {
	confine.Procs(1)
	debug.SetMemoryLimit(memory)
	if err := confine.Obey(egress.ConfigFD, confine.Proxy, maxDescriptors); err != nil {
		return err
	}
	prepare()
	confine.Procs(threads)
	config, err := readConfig(egress.ConfigFD)
	if err != nil {
		return err
	}
	// What fails here is that some memory of the start stays.
	defer time.AfterFunc(settled, func() {
		debug.SetGCPercent(collectAt)
		_ = confine.Settle()
	}).Stop()
	return Serve(ctx, config)
}

// prepare does what the configuration will need, before it is there: what
// encoding/json does the first time that it meets a type takes a while.
func prepare() {
	if text, err := json.Marshal(egress.ProxyConfig{}); err == nil {
		_, _ = egress.Decode[egress.ProxyConfig](text)
	}
}

func readConfig(socket int) (egress.ProxyConfig, error) {
	data, files, err := confine.Receive(socket, maxDocument)
	if err != nil {
		return egress.ProxyConfig{}, err
	}
	config, err := egress.Decode[egress.ProxyConfig](data)
	if err == nil && config.Version != egress.ConfigVersion {
		err = fmt.Errorf("configuration: saw version %d, want %d", config.Version, egress.ConfigVersion)
	}
	if err == nil {
		err = confine.Placed(files, descriptors(&config)...)
	}
	return config, err
}

func descriptors(c *egress.ProxyConfig) []*int {
	fds := []*int{&c.Ready, &c.Control, &c.Events, &c.Counters}
	for i := range c.Audit {
		fds = append(fds, &c.Audit[i])
	}
	return fds
}
