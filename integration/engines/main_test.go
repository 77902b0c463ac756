//go:build engines

package engines

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sage-sandbox/sage/integration/caller"
)

// The test binary runs three times, each the parent of the next:
//
//	host    records what it is about to make, removes it, looks what is left
//	capsule pid 1 of new pid, mount and network namespaces: mounts, reaps
//	tests   the tests themselves, with the daemons as children
//
// Killing any of them, at any moment, takes every daemon, shim, container,
// mount, bridge and iptables rule with it, since the kernel tears the
// namespaces down. Only files and cgroups are left, and those are recorded.
const (
	stageVar   = "SAGE_ENGINES_STAGE"
	dirVar     = "SAGE_ENGINES_DIR"
	nameVar    = "SAGE_ENGINES_NAME"
	stageInit  = "capsule"
	stageTests = "tests"
)

func TestMain(m *testing.M) {
	if caller.Main() { // in a container
		return
	}
	switch os.Getenv(stageVar) {
	case stageInit:
		os.Exit(capsule())
	case stageTests:
		os.Exit(tests(m))
	default:
		os.Exit(host())
	}
}

// host is the outermost stage; its result is the result of the ring.
func host() int {
	if os.Geteuid() != 0 {
		return complain("the engine ring needs root", nil)
	}
	if err := removeStale(); err != nil {
		return complain("remove what an earlier ring left", err)
	}
	rec, err := newRecord()
	if err != nil {
		return complain("record this ring", err)
	}
	code := runCapsule(rec)
	if code != 0 {
		rec.keepLogs()
	}
	if err := rec.remove(); err != nil {
		return complain("remove this ring's files and cgroups", err)
	}
	left := view{}.awaitSame(func() view { return hostTraces(rec) })
	return max(code, reportLeft("host", left))
}

// runCapsule starts the second stage and waits for it.
func runCapsule(rec record) int {
	// The death signal is tied to the thread that forked, not to the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := again(stageInit)
	cmd.Env = append(cmd.Env, dirVar+"="+rec.Dir, nameVar+"="+rec.Name)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return complain("start the capsule", err)
	}
	defer killOnSignal(cmd.Process)()
	return exitCode(cmd.Wait())
}

// killOnSignal ends the capsule when the ring itself is told to end, so that
// host still gets to remove the files. The result undoes it.
func killOnSignal(p *os.Process) func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	go func() {
		for range signals {
			_ = p.Kill()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// again is this test binary with the same arguments, for another stage.
func again(stage string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageVar+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// tests is the innermost stage.
func tests(m *testing.M) int {
	flag.Parse()
	allowWaiting()
	if missing := theRing.missing(); len(missing) > 0 {
		return complain("missing: "+strings.Join(missing, ", "), nil)
	}
	theRing.clean = capsuleView()
	code := m.Run()
	theRing.stop()
	return code
}

// allowWaiting lets more tests run at once than there are processors: most of
// their time they wait for a container's timer, not for a processor.
func allowWaiting() {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", strconv.Itoa(3*runtime.NumCPU()))
	}
}

func complain(doing string, err error) int {
	if err == nil {
		fmt.Fprintln(os.Stderr, "engines:", doing)
	} else {
		fmt.Fprintf(os.Stderr, "engines: %s: %v\n", doing, err)
	}
	return 1
}

// exitCode is the status of a finished child as a shell would give it.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return 1
	case exit.Sys().(syscall.WaitStatus).Signaled():
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	default:
		return exit.ExitCode()
	}
}
