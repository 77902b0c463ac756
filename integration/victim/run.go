package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// outcome is one line of the report.
type outcome struct {
	Attempt string `json:"attempt"`
	ABI     string `json:"abi"`
	Context string `json:"context"`
	Result  string `json:"result"`
}

var errUsage = errors.New("usage: victim names | euid | try CONTEXT NAME | init|exec|thread|daemon [PROGRAM]")

func victim(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "names":
		return json.NewEncoder(os.Stdout).Encode(names())
	case len(args) == 1 && args[0] == "euid":
		_, err := io.WriteString(os.Stdout, strconv.Itoa(os.Geteuid()))
		return err
	case len(args) == 3 && args[0] == "try":
		return tryOne(args[1], args[2])
	case len(args) == 1 || len(args) == 2:
		return inContext(args[0], slices.Concat(args[1:], []string{os.Args[0]})[0])
	}
	return errUsage
}

func inContext(context, program string) error {
	switch context {
	case "daemon":
		return daemon()
	case "daemon-parent":
		return daemonParent()
	case "daemon-child":
		return daemonChild()
	}
	return tryAll(context, program)
}

// i386Only are attempts of the program for i386.
var i386Only = []string{"socketcall alg", "umount", "stime", "clock_settime64"}

// names has a name for every attempt.
func names() []string {
	var all []string
	for _, a := range attempts() {
		all = append(all, a.name)
	}
	return all
}

// namesOf leaves out for another program what only this one's table has, and
// adds what only that one's has.
func namesOf(program string) []string {
	if program == os.Args[0] {
		return names()
	}
	all := slices.Clone(i386Only)
	for _, a := range attempts() {
		if !slices.ContainsFunc(otherTables(), func(o attempt) bool { return o.name == a.name }) {
			all = append(all, a.name)
		}
	}
	return all
}

// tryAll starts a process for each attempt, since one that is let through, or
// killed, may leave its process in any state.
func tryAll(context, program string) error {
	out := json.NewEncoder(os.Stdout)
	for _, name := range namesOf(program) {
		o := outcome{Attempt: name, ABI: abiOf(name, program), Context: context}
		o.Result = inProcess(program, context, name)
		if err := out.Encode(o); err != nil {
			return err
		}
	}
	return nil
}

// abiOf is the table of calls that an attempt goes by. Another program is one
// for another of them, named for it.
func abiOf(name, program string) string {
	prefix, _, _ := strings.Cut(name, " ")
	switch {
	case program != os.Args[0]:
		return strings.TrimPrefix(filepath.Ext(program), ".")
	case prefix == "x32" || prefix == "int80":
		return prefix
	}
	return runtime.GOARCH
}

func inProcess(program, context, name string) string {
	cmd := command(program, "try", context, name)
	var said, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &failed
	// A session of its own: vhangup would hang up this one's terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := cmd.Run()
	if status, ok := waitStatus(cmd); ok && status.Signaled() {
		return unix.SignalName(status.Signal())
	}
	if err != nil {
		return "error: " + err.Error() + ": " + failed.String()
	}
	return strings.TrimSpace(said.String())
}

// command is for a child that ends by itself.
func command(name string, args ...string) *exec.Cmd {
	return exec.Command(name, args...) //nolint:noctx // nobody is there to end it
}

func waitStatus(cmd *exec.Cmd) (syscall.WaitStatus, bool) {
	if cmd.ProcessState == nil {
		return 0, false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, ok
}

func tryOne(context, name string) error {
	i := slices.IndexFunc(attempts(), func(a attempt) bool { return a.name == name })
	if i < 0 {
		return fmt.Errorf("nothing is named %q", name)
	}
	do := attempts()[i].do
	if context == "thread" {
		do = onOtherThread(do)
	}
	_, err := io.WriteString(os.Stdout, resultOf(do()))
	return err
}

// onOtherThread runs do on a thread that is not the process's first: filters
// and capabilities are those of a thread.
func onOtherThread(do func() error) func() error {
	return func() error {
		runtime.LockOSThread() // So that the new goroutine cannot get the first thread.
		result := make(chan error)
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == unix.Getpid() {
				do = onOtherThread(do) // While this goroutine keeps the first.
			}
			result <- do()
		}()
		return <-result
	}
}

func resultOf(err error) string {
	var number syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "EOPNOTSUPP" // which has two names
	case errors.As(err, &number):
		return unix.ErrnoName(number)
	}
	return "error: " + err.Error()
}

// daemon tries everything from an orphan in a session of its own. It stays
// itself until the orphan has closed the output.
func daemon() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	parent := command(os.Args[0], "daemon-parent")
	parent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	parent.Stdout, parent.Stderr = w, os.Stderr
	if err := parent.Run(); err != nil {
		return err
	}
	_ = w.Close()
	_, err = io.Copy(os.Stdout, r)
	return err
}

// daemonParent leaves its child behind.
func daemonParent() error {
	child := command(os.Args[0], "daemon-child")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	return child.Start()
}

// daemonChild begins when its parent is gone.
func daemonChild() error {
	for range 1000 {
		if unix.Getppid() == 1 {
			return tryAll("daemon", os.Args[0])
		}
		_, _ = unix.Poll(nil, 5)
	}
	return errors.New("the parent does not end")
}
