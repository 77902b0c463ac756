package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// Stage is the argument that makes the program run the jobs.
const Stage = "guest-jobs"

// runStage starts the jobs' process and collects every orphan until it ends.
func runStage(p plan.Plan) error {
	if err := inOrder(deviceLinks, func() error { return mountAll(cgroupMounts) }, delegateCgroups); err != nil {
		return err
	}
	jobs, err := os.StartProcess(p.Program, []string{p.Program, Stage}, &os.ProcAttr{
		Env: p.Env, Dir: "/", Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if pid == jobs.Pid {
			return errors.New("the jobs' process ended and did not power off")
		}
	}
}

// Jobs runs the plan's jobs and powers the machine off. It does not return.
func Jobs(ctx context.Context) {
	report := plan.Report{}
	if err := runJobs(ctx, &report); err != nil {
		report.Error = err.Error()
	}
	if err := plan.Save(plan.Share, plan.Answer, report); err != nil {
		fmt.Fprintln(os.Stderr, "sage-vm: answer:", err)
	}
	powerOff()
}

func runJobs(ctx context.Context, report *plan.Report) error {
	var p plan.Plan
	if err := plan.Load(plan.Share, plan.File, &p); err != nil {
		return err
	}
	port, err := openPort(ctx)
	if err != nil {
		return err
	}
	defer port.Close()
	if report.Release, err = release(); err != nil {
		return err
	}
	if report.UpSeconds, err = uptime(); err != nil {
		return err
	}
	for _, job := range p.Jobs {
		result, err := runJob(ctx, job, p.Env, port)
		if err != nil {
			return fmt.Errorf("job %s: %w", job.Name, err)
		}
		report.Results = append(report.Results, result)
		// If the guest dies in the next job, the host still knows of this one.
		if err := plan.Save(plan.Share, "partial-"+plan.Answer, report); err != nil {
			return err
		}
	}
	return nil
}

func uptime() (float64, error) {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	var up float64
	_, err = fmt.Sscan(string(data), &up)
	return up, err
}

func runJob(ctx context.Context, job plan.Job, env []string, out io.Writer) (plan.Result, error) {
	cmd := exec.CommandContext(ctx, job.Args[0], job.Args[1:]...)
	cmd.Dir, cmd.Env = job.Dir, env
	// Not the port itself: it cannot be opened twice, as /dev/stderr would.
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	since := time.Now()
	err := cmd.Run()
	result := plan.Result{Name: job.Name, Seconds: time.Since(since).Seconds(), Held: errors.Is(err, exec.ErrWaitDelay)}
	if cmd.ProcessState == nil {
		return result, err
	}
	result.Code = exitCode(cmd.ProcessState)
	return result, nil
}

// exitCode is the status as a shell would give it.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// openPort finds the serial port by the name that the host gave it; the driver
// learns it a moment after it was loaded.
func openPort(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, path := range names {
			if name, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(name)) == plan.OutTag {
				return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(path))), os.O_WRONLY, 0)
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("no serial port is called " + plan.OutTag)
		case <-tick.C:
		}
	}
}
