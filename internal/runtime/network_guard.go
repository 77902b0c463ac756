package runtime

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/sage-sandbox/sage/egress/guard"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// guardable says why no guard could be put on a container's cgroup here, as far
// as that is known before there is one.
func guardable() error {
	_, err := cgroup2()
	return err
}

// guardOptions is what the guard is to let pass.
func (a *admission) guardOptions() guard.Options {
	n, p := a.record.Network, a.record.Policy.Network
	return guard.Options{
		Shared: !n.Own, BridgePort: a.network.serving.Port, Transparent: len(n.Transparent) > 0,
		Loopback: n.Own && p.Listen != spec.ListenDeny, Published: p.Listen == spec.ListenAny,
	}
}

// loadGuard has the kernel take the guard's programs while the container is made;
// what goes wrong with them is known when they are attached.
func (a *admission) loadGuard() {
	o := a.guardOptions()
	a.network.guard = sync.OnceValues(async(func() (*guard.Loaded, error) { return guard.Load(o) }))
}

// attachGuard puts the guard on the container's cgroup and reads it back.
func (a *admission) attachGuard(group *os.File) error {
	loaded, err := a.network.guard()
	if err != nil {
		return err
	}
	record, err := loaded.Attach(int(group.Fd()))
	if err == nil {
		a.network.serving.Guard, err = json.Marshal(record)
	}
	if err != nil {
		return err
	}
	return verifyGuard(group, a.network.serving.Guard)
}

func verifyGuard(group *os.File, saved json.RawMessage) error {
	var record guard.Record
	if err := json.Unmarshal(saved, &record); err != nil {
		return errcode.Wrap(errcode.StateInvalid, "read the record of the packet guard", fmt.Errorf("network: %w", err))
	}
	return guard.Verify(int(group.Fd()), record)
}
