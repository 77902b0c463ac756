package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) checkpoint() cli.Command {
	return cli.Command{
		Name:        "checkpoint",
		Usage:       "checkpoint a running container",
		ArgsUsage:   idArg,
		Description: "Saves the processes of a container to files, by CRIU.",
		Flags: []cli.Flag{
			cli.StringFlag{Name: "image-path", Usage: "path for saving criu image files"},
			cli.StringFlag{Name: "work-path", Usage: "path for saving work files and logs"},
			cli.StringFlag{Name: "parent-path", Usage: "path for previous criu image files in pre-dump"},
			cli.BoolFlag{Name: "leave-running", Usage: "leave the process running after checkpointing"},
			cli.BoolFlag{Name: "tcp-established", Usage: "allow open tcp connections"},
			cli.BoolFlag{Name: "tcp-skip-in-flight", Usage: "skip in-flight tcp connections"},
			cli.BoolFlag{Name: "link-remap", Usage: "allow one to link unlinked files back when possible"},
			cli.BoolFlag{Name: "ext-unix-sk", Usage: "allow external unix sockets"},
			cli.BoolFlag{Name: "shell-job", Usage: "allow shell jobs"},
			cli.BoolFlag{Name: "lazy-pages", Usage: "use userfaultfd to lazily restore memory pages"},
			cli.IntFlag{Name: "status-fd", Value: -1, Usage: "criu writes \\0 to this FD once lazy-pages is ready"},
			cli.StringFlag{Name: "page-server", Usage: "ADDRESS:PORT of the page server"},
			cli.BoolFlag{Name: "file-locks", Usage: "handle file locks, for safety"},
			cli.BoolFlag{Name: "pre-dump", Usage: "dump container's memory information only, leave the container running after this"},
			cli.StringFlag{Name: "manage-cgroups-mode", Usage: "cgroups mode: soft|full|strict|ignore (default: soft)"},
			cli.StringSliceFlag{Name: "empty-ns", Usage: "create a namespace, but don't restore its properties"},
			cli.BoolFlag{Name: "auto-dedup", Usage: "enable auto deduplication of memory images"},
		},
		Action: c.onContainer(func(ctx *cli.Context, container *runtime.Container) error {
			runtime.WarnRootless("checkpoint")
			return container.Checkpoint(func() (*runtime.CriuOpts, error) { return criuOptions(ctx) })
		}),
	}
}

func (c *command) restore() cli.Command {
	return cli.Command{
		Name:        "restore",
		Usage:       "restore a container from a previous checkpoint",
		ArgsUsage:   idArg,
		Description: "Makes a container whose processes go on from where a checkpoint was taken.",
		Flags: []cli.Flag{
			cli.StringFlag{Name: "console-socket", Usage: consoleUsage},
			cli.StringFlag{Name: "image-path", Usage: "path to criu image files for restoring"},
			cli.StringFlag{Name: "work-path", Usage: "path for saving work files and logs"},
			cli.BoolFlag{Name: "tcp-established", Usage: "allow open tcp connections"},
			cli.BoolFlag{Name: "ext-unix-sk", Usage: "allow external unix sockets"},
			cli.BoolFlag{Name: "shell-job", Usage: "allow shell jobs"},
			cli.BoolFlag{Name: "file-locks", Usage: "handle file locks, for safety"},
			cli.StringFlag{Name: "manage-cgroups-mode", Usage: "cgroups mode: soft|full|strict|ignore (default: soft)"},
			bundleFlag(),
			cli.BoolFlag{Name: "detach, d", Usage: "detach from the container's process"},
			cli.StringFlag{Name: "pid-file", Usage: pidFileUsage},
			cli.BoolFlag{Name: "no-subreaper", Usage: "disable the use of the subreaper used to reap reparented processes"},
			cli.BoolFlag{Name: "no-pivot", Usage: noPivotUsage},
			cli.StringSliceFlag{Name: "empty-ns", Usage: "create a namespace, but don't restore its properties"},
			cli.BoolFlag{Name: "auto-dedup", Usage: "enable auto deduplication of memory images"},
			cli.BoolFlag{Name: "lazy-pages", Usage: "use userfaultfd to lazily restore memory pages"},
			cli.StringFlag{Name: "lsm-profile", Usage: "Specify an LSM profile to be used during restore in the form of TYPE:NAME."},
			cli.StringFlag{Name: "lsm-mount-context", Usage: "Specify an LSM mount context to be used during restore."},
		},
		Action: c.action(exactly(1), func(ctx *cli.Context) error {
			runtime.WarnRootless("restore")
			opts, err := criuOptions(ctx)
			if err != nil {
				return err
			}
			launch, err := c.launch(ctx)
			if err != nil {
				return err
			}
			status, err := launch.Restore(opts)
			if err != nil {
				return err
			}
			return exitStatus(status)
		}),
	}
}

func criuOptions(ctx *cli.Context) (*runtime.CriuOpts, error) {
	images, parent, err := imagePaths(ctx.String("image-path"), ctx.String("parent-path"))
	if err != nil {
		return nil, err
	}
	server, err := pageServer(ctx.String("page-server"))
	if err != nil {
		return nil, err
	}
	empty, err := emptyNamespaces(ctx.StringSlice("empty-ns"))
	if err != nil {
		return nil, err
	}
	return &runtime.CriuOpts{
		ImagesDirectory: images, ParentImage: parent, WorkDirectory: ctx.String("work-path"),
		LeaveRunning: ctx.Bool("leave-running"), PreDump: ctx.Bool("pre-dump"),
		TcpEstablished: ctx.Bool("tcp-established"), TcpSkipInFlight: ctx.Bool("tcp-skip-in-flight"),
		LinkRemap: ctx.Bool("link-remap"), ExternalUnixConnections: ctx.Bool("ext-unix-sk"),
		ShellJob: ctx.Bool("shell-job"), FileLocks: ctx.Bool("file-locks"), AutoDedup: ctx.Bool("auto-dedup"),
		LazyPages: ctx.Bool("lazy-pages"), StatusFd: ctx.Int("status-fd"), PageServer: server,
		LsmProfile: ctx.String("lsm-profile"), LsmMountContext: ctx.String("lsm-mount-context"),
		ManageCgroupsMode: ctx.String("manage-cgroups-mode"), EmptyNs: empty,
	}, nil
}

// imagePaths makes the directory for the images. parent, of an earlier
// pre-dump, is relative to it and must be there.
func imagePaths(images, parent string) (string, string, error) {
	if images == "" {
		images = "checkpoint"
	}
	images, err := filepath.Abs(images)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(images, 0o600); err != nil {
		return "", "", err
	}
	if filepath.IsAbs(parent) {
		return "", "", errors.New("--parent-path must be relative")
	}
	if parent == "" {
		return images, "", nil
	}
	// The slash makes it fail with ENOTDIR for a file.
	if _, err := os.Stat(filepath.Join(images, parent) + "/"); err != nil {
		return "", "", fmt.Errorf("invalid --parent-path: %w", err)
	}
	return images, parent, nil
}

func pageServer(s string) (runtime.PageServer, error) {
	if s == "" {
		return runtime.PageServer{}, nil
	}
	address, port, err := net.SplitHostPort(s)
	if err != nil || address == "" || port == "" {
		return runtime.PageServer{}, errors.New("Use --page-server ADDRESS:PORT to specify page server") //nolint:staticcheck // runc's phrase
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return runtime.PageServer{}, errors.New("Invalid port number") //nolint:staticcheck // runc's phrase
	}
	return runtime.PageServer{Address: address, Port: int32(n)}, nil
}

// emptyNamespaces always has the network: its devices are an engine's, not ours
// to dump.
func emptyNamespaces(names []string) (uint32, error) {
	for _, name := range names {
		if specs.LinuxNamespaceType(name) != specs.NetworkNamespace {
			return 0, fmt.Errorf("namespace %q is not supported", name)
		}
	}
	return unix.CLONE_NEWNET, nil
}
