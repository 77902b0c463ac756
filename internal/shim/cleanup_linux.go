package shim

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"time"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/process"
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/runc"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdshim "github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/pkg/sys/reaper"
	gorunc "github.com/containerd/go-runc"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/sampler"
	"github.com/sage-sandbox/sage/internal/state"
)

// Stop is the clean-up after a shim that died: containerd runs "delete" in the
// bundle then. Whatever of the bundle is missing or half written, it goes on to
// the next step, because containerd keeps a bundle whose clean-up failed for
// ever. That is why the embedded manager's Stop, which gives up on an options
// file that was cut short, is not used.
func (m *shimManager) Stop(ctx context.Context, id string) (containerdshim.StopStatus, error) {
	bundle, err := bundleOf(id)
	if err != nil {
		return containerdshim.StopStatus{}, err
	}
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return containerdshim.StopStatus{}, err
	}
	if !isDeleted(bundle) {
		opts := recordedOptions(ctx, bundle)
		auditLost(ctx, bundle, filepath.Join(opts.Root, namespace, id))
		deleteContainer(ctx, opts, bundle, namespace, id)
	}
	deletedAt := time.Now()
	if err := mount.UnmountRecursive(filepath.Join(bundle, "rootfs"), 0); err != nil {
		log.G(ctx).WithError(err).Warn("unmount the root file system")
	}
	removeSockets(ctx, socketAddresses(ctx, bundle, id, containerdAddress()))
	return exitStatus(ctx, bundle, deletedAt), nil
}

// bundleOf gives the bundle of id, which need not be the one that containerd runs
// this in: a shim serves all containers of a pod. They are neighbours.
func bundleOf(id string) (string, error) {
	if id == "" || id == "." || id == ".." || strings.Contains(id, "/") {
		return "", invalid("delete: the id is not a name")
	}
	cwd, err := os.Getwd()
	return filepath.Join(filepath.Dir(cwd), id), err
}

// deleteContainer has the runtime kill and remove what is left of id, which may
// be nothing.
func deleteContainer(ctx context.Context, opts *runcoptions.Options, bundle, namespace, id string) {
	// The caller reaps every child of this process. With go-runc's own monitor
	// the two would race for the exit status, and a delete that went well be
	// reported as failed.
	gorunc.Monitor = reaper.Default
	runtime := process.NewRunc(opts.Root, bundle, namespace, opts.BinaryName, opts.SystemdCgroup)
	if err := runtime.Delete(ctx, id, &gorunc.DeleteOpts{Force: true}); err != nil {
		log.G(ctx).WithError(err).Warn("delete the container")
	}
}

// auditLost writes down why a container ends that the dead shim watched: nobody
// does any more, and its deletion is what kills it (S-152).
func auditLost(ctx context.Context, bundle, dir string) {
	if plan, err := sampler.Load(dir); err != nil || plan == nil {
		return
	}
	if _, err := runc.ReadExitStatus(bundle); err == nil {
		return // it had ended, and the shim was there to tell
	}
	lost := state.Ending{Reason: state.SamplerLost, Detail: "the shim died"}
	if err := audit.Exited(dir, initPid(bundle), lost); err != nil {
		log.G(ctx).WithError(err).Warn("audit the exit")
	}
}

// recordedOptions gives what Create wrote to the bundle. Without a record it
// gives the defaults, which are right for all containers whose engine passed no
// root and no binary of its own.
func recordedOptions(ctx context.Context, bundle string) *runcoptions.Options {
	opts, err := runc.ReadOptions(bundle)
	if err != nil {
		log.G(ctx).WithError(err).Warn("read the recorded options")
	}
	if opts == nil {
		opts = &runcoptions.Options{}
	}
	complete(opts)
	return opts
}

// removeSockets removes what the dead shim listened on, which nothing else does:
// it would have on its way out, and containerd only forgets the address. The
// shim of a pod may still live and serve other containers; then it answers.
func removeSockets(ctx context.Context, addresses []string) {
	for _, address := range addresses {
		if address == "" || containerdshim.CanConnect(address) {
			continue
		}
		if err := containerdshim.RemoveSocket(address); err != nil && !errors.Is(err, os.ErrNotExist) {
			log.G(ctx).WithError(err).Warn("remove the socket")
		}
	}
}

// socketAddresses lists where the shim of id may have listened: at the address
// that containerd noted, and at those that a shim started for id takes, which
// containerd may not have come to note. Those are the shim's own, for requests
// and for debugging; containers that share a shim have only the noted one.
func socketAddresses(ctx context.Context, bundle, id, containerd string) []string {
	addresses := []string{notedAddress(bundle)}
	// The link is made by containerd's run loop; its target is short, where the
	// address of a socket must be, while the bundle's path need not be.
	dir, err := os.Readlink(filepath.Join(bundle, "s"))
	if err != nil {
		return addresses
	}
	for _, debug := range []bool{false, true} {
		address, err := containerdshim.CreateSocketAddress(ctx, dir, containerd, id, debug)
		if err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// notedAddress gives "" where containerd had noted none.
func notedAddress(bundle string) string {
	body, err := os.ReadFile(filepath.Join(bundle, "bootstrap.json"))
	if err != nil {
		return ""
	}
	var bootstrap struct {
		Address string `json:"address"`
	}
	if err := json.Unmarshal(body, &bootstrap); err != nil {
		return ""
	}
	return bootstrap.Address
}

// containerdAddress is part of a socket's name. containerd's run loop keeps what
// it was called with to itself, but its flags are registered where all can see.
func containerdAddress() string {
	address := flag.Lookup("address")
	if address == nil {
		return ""
	}
	return address.Value.String()
}

// exitStatus gives what the shim saw of the container's end and recorded, or
// else what deleteContainer will have done to it.
func exitStatus(ctx context.Context, bundle string, deletedAt time.Time) containerdshim.StopStatus {
	exit, err := runc.ReadExitStatus(bundle)
	if err == nil {
		return containerdshim.StopStatus{ExitedAt: exit.Timestamp, ExitStatus: exit.Status, Pid: exit.Pid}
	}
	if !errors.Is(err, os.ErrNotExist) {
		log.G(ctx).WithError(err).Warn("read the recorded exit status")
	}
	return containerdshim.StopStatus{ExitedAt: deletedAt, ExitStatus: 128 + int(unix.SIGKILL), Pid: initPid(bundle)}
}

// initPid gives 0 for a container that never had a process.
func initPid(bundle string) int {
	pid, err := gorunc.ReadPidFile(filepath.Join(bundle, process.InitPidFile))
	if err != nil {
		return 0
	}
	return pid
}
