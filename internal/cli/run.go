package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

// Env is what a command gets from its process.
type Env struct {
	In, Out, Err *os.File
	LookupEnv    func(string) (string, bool)
}

// exitStatus carries the status of a container's process to our own exit.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// failure is an error with an exit status other than 1.
type failure struct {
	error
	status int
}

func (f failure) Unwrap() error { return f.error }

// command is one invocation.
type command struct {
	env     Env
	program string // what we were called as, for messages
	host    runtime.Host
}

// Run carries out one command line, args[0] being the program's name, and
// returns the status to exit with: that of the container's process where the
// command waits for one, 1 for a failure of sage (exec: 255).
func Run(env Env, args []string) int {
	if len(args) == 0 {
		args = []string{"sage-runtime"} // execve(2) with no argv at all, before Linux 5.18
	}
	c := &command{env: env, program: filepath.Base(args[0])}
	app := c.app()
	// urfave/cli would exit by itself; all its errors come back to us.
	cli.OsExiter = func(int) {}
	cli.ErrWriter = errorLog{env.Err}
	return c.report(app.Run(args))
}

// report is the only place where a failure is told, and where it becomes a status.
func (c *command) report(err error) int {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	// Not the interface: a failed hook's *exec.ExitError has its methods too.
	if usage, ok := errors.AsType[*cli.ExitError](err); ok {
		return usage.ExitCode() // told already, through errorLog
	}
	logError(err, c.env.Err)
	if f, ok := errors.AsType[failure](err); ok {
		return f.status
	}
	return 1
}

// defaultConfig is the host's configuration unless --config names another.
const defaultConfig = "/etc/sage/config.yaml"

// app lists the global flags and the commands.
func (c *command) app() *cli.App {
	app := cli.NewApp()
	app.Name = "sage-runtime"
	app.Version = version
	// "runc - Open ..." is a phrase that runc's own tests look for in the help.
	app.Usage = "command-line compatible with runc - Open Container Initiative runtime" + usage
	app.Writer = c.env.Out
	cli.VersionPrinter = printVersion
	root, xdg := c.defaultRoot()
	app.Flags = []cli.Flag{
		cli.StringFlag{Name: "config", Value: defaultConfig, Usage: "host configuration, which says what containers may do; without the default file the built-in profiles hold"},
		cli.BoolFlag{Name: "debug", Usage: "enable debug logging"},
		cli.StringFlag{Name: "log", Usage: "set the log file to write sage-runtime logs to (default is '/dev/stderr')"},
		cli.StringFlag{Name: "log-format", Value: "text", Usage: "set the log format ('text' (default), or 'json')"},
		cli.StringFlag{Name: "root", Value: root, Usage: "root directory for storage of container state (this should be located in tmpfs)"},
		cli.BoolFlag{Name: "systemd-cgroup", Usage: `enable systemd cgroup support, expects cgroupsPath to be of form "slice:prefix:name" for e.g. "system.slice:sage:434234"`},
		cli.StringFlag{Name: "rootless", Value: "auto", Usage: "ignore cgroup permission errors ('true', 'false', or 'auto')"},
	}
	app.Commands = []cli.Command{
		c.checkpoint(), c.create(), c.delete(), c.events(), c.exec(), c.features(), c.kill(), c.list(), c.pause(),
		c.ps(), c.restore(), c.resume(), c.run(), c.spec(), c.start(), c.state(), c.update(),
		c.attest(), c.check(), c.metrics(), c.policy(), c.watch(), c.setup(),
	}
	app.Before = func(ctx *cli.Context) error { return c.globals(ctx, xdg) }
	return app
}

const usage = `

   Engines call it: Docker, containerd, Kubernetes, nerdctl and Podman. By hand, a
   container is run from a bundle, that is a folder with a root filesystem and a
   config.json ("sage-runtime spec" writes one to start from):

       # sage-runtime run --bundle /path/to/bundle my-container`

// defaultRoot returns where state goes without --root, and whether that is
// under $XDG_RUNTIME_DIR.
func (c *command) defaultRoot() (root string, xdg bool) {
	user, set := c.env.LookupEnv("USER")
	if dir, _ := c.env.LookupEnv("XDG_RUNTIME_DIR"); dir != "" && runtime.HonorXDGRuntimeDir(user, set) {
		return filepath.Join(dir, "sage"), true
	}
	return "/run/sage", false
}

// globals checks the global flags and keeps what they say.
func (c *command) globals(ctx *cli.Context, xdg bool) error {
	rootless, err := triState(ctx.GlobalString("rootless"))
	if err != nil {
		return fmt.Errorf("--rootless: %w", err)
	}
	root := ctx.GlobalString("root")
	switch {
	case ctx.GlobalIsSet("root"):
		if root, err = checkRoot(root); err != nil {
			return err
		}
	case xdg:
		if err := makeSticky(root); err != nil {
			return err
		}
	}
	config, err := absolute(ctx.GlobalString("config"))
	if err != nil {
		return err
	}
	c.host = runtime.Host{
		Root: root, SystemdCgroup: ctx.GlobalBool("systemd-cgroup"), Rootless: rootless,
		Config: config, ConfigAsked: ctx.GlobalIsSet("config"),
	}
	return configureLog(ctx)
}

// checkRoot refuses "/", which is also what "", "." and "../.." can come to:
// delete removes whole directories below the root.
func checkRoot(root string) (string, error) {
	root, err := filepath.Abs(root)
	if err == nil && root == "/" {
		err = errors.New("Option --root argument should not be set to /") //nolint:staticcheck // runc's phrase
	}
	return root, err
}

// makeSticky makes the root below $XDG_RUNTIME_DIR. The XDG base directory
// specification lets files without the sticky bit be cleaned away.
func makeSticky(root string) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("the path in $XDG_RUNTIME_DIR must be writable by the user: %w", err)
	}
	if err := os.Chmod(root, 0o700|os.ModeSticky); err != nil {
		return fmt.Errorf("you should check permission of the path in $XDG_RUNTIME_DIR: %w", err)
	}
	return nil
}

func (c *command) getenv(name string) string {
	value, _ := c.env.LookupEnv(name)
	return value
}

func (c *command) stdio() runtime.Stdio {
	return runtime.Stdio{In: c.env.In, Out: c.env.Out, Err: c.env.Err}
}
