package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ways are the processes of the comparison of ways to an HTTPS server on
// loopback: straight, through a relay that looks at nothing, through smokescreen,
// and from a container under sage through its bridge and its proxy.
type ways struct {
	lab     *lab
	runtime *contender
	origin  *helper
	port    string
	names   string // the nameserver's address
	all     []*way
	others  []*helper
}

// way is one of them, with the process that is its client.
type way struct {
	name   string
	client *helper
	pids   []int // of what lies on it and is to be small

	requests []time.Duration
	pours    []float64 // MiB/s
	crowds   []float64 // requests/s
	idle     int       // KiB of memory before the first request
	after    int       // and after the last

	cpu   time.Duration // that pids took for what took turns in crowds
	asked int           // requests in crowds
}

// helper is a process that answers each line with one.
type helper struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	log  string
}

// helping starts a process whose last words are kept. An interrupt ends it by
// the end of its input, as in every other case.
func (w *ways) helping(ctx context.Context, name string, argv ...string) (*helper, error) {
	h := &helper{name: name, log: filepath.Join(w.lab.dir, name+"-log")}
	log, err := os.OpenFile(h.log, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	h.cmd = exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	h.cmd.Stderr = log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.out = bufio.NewReader(out)
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return h, h.cmd.Start()
}

func (h *helper) line() (string, error) {
	text, err := h.out.ReadString('\n')
	if err != nil {
		return "", h.failed(err)
	}
	return strings.TrimSpace(text), nil
}

// failed is err with the last words of the process.
func (h *helper) failed(err error) error {
	said, _ := os.ReadFile(h.log)
	return fmt.Errorf("%s: %w: %s", h.name, err, said[max(0, len(said)-600):])
}

func (h *helper) ask(what string, n, width int) ([]int64, error) {
	if _, err := fmt.Fprintln(h.in, what, n, width); err != nil {
		return nil, err
	}
	text, err := h.line()
	if err != nil {
		return nil, err
	}
	var numbers []int64
	for word := range strings.FieldsSeq(text) {
		var n int64
		if _, err := fmt.Sscan(word, &n); err != nil {
			return nil, fmt.Errorf("%s said %q: %w", h.name, text, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func (h *helper) close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.in.Close(), h.cmd.Wait())
}

func newWays(ctx context.Context, l *lab, o options) (w *ways, err error) {
	w = &ways{lab: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(ctx))
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return w, err
	}
	if w.origin, err = w.helping(ctx, "origin", self, roleVerb, "origin"); err != nil {
		return w, err
	}
	said, err := w.origin.line()
	if err != nil {
		return w, err
	}
	w.port, w.names, _ = strings.Cut(said, " ")
	steps := []func(context.Context, string) error{w.addDirect, w.addRelay, w.addSmokescreen}
	for _, add := range steps {
		if err := add(ctx, self); err != nil {
			return w, err
		}
	}
	return w, w.addSage(ctx, self, o.sage)
}

// add starts the client of a way.
func (w *ways) add(ctx context.Context, self, name, address, target string, pids ...int) error {
	return w.addBy(ctx, []string{self}, name, address, target, pids...)
}

func (w *ways) addBy(ctx context.Context, argv []string, name, address, target string, pids ...int) error {
	client, err := w.helping(ctx, name+"-client", append(argv, roleVerb, "client", address, target)...)
	if err != nil {
		return err
	}
	w.all = append(w.all, &way{name: name, client: client, pids: pids})
	return nil
}

func (w *ways) addDirect(ctx context.Context, self string) error {
	return w.add(ctx, self, "direct", "127.0.0.1:"+w.port, "")
}

func (w *ways) addRelay(ctx context.Context, self string) error {
	h, err := w.helping(ctx, "relay", self, roleVerb, "relay", "127.0.0.1:"+w.port)
	if err != nil {
		return err
	}
	w.others = append(w.others, h)
	port, err := h.line()
	if err != nil {
		return err
	}
	return w.add(ctx, self, "relay", "127.0.0.1:"+port, "", h.cmd.Process.Pid)
}

// addSmokescreen has it do what sage's proxy does: decide by a list of names,
// resolve, and write a line for each connection. It has a free port to be told.
func (w *ways) addSmokescreen(ctx context.Context, self string) error {
	bin := filepath.Join(cacheDir(), "peers", "bin", "smokescreen")
	if err := command(ctx, "sh", filepath.Join("integration", "peers", "build.sh"), "smokescreen"); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	list, config := filepath.Join(w.lab.dir, "smokescreen-list.yaml"), filepath.Join(w.lab.dir, "smokescreen.yaml")
	err = errors.Join(
		os.WriteFile(list, fmt.Appendf(nil, smokescreenList, originName), 0o600),
		os.WriteFile(config, fmt.Appendf(nil, smokescreenText, list, w.names), 0o600),
	)
	if err != nil {
		return err
	}
	h, err := w.helping(ctx, "smokescreen", bin, "--config-file", config, "--listen-ip", "127.0.0.1", "--listen-port", port)
	if err != nil {
		return err
	}
	w.others = append(w.others, h)
	address := "127.0.0.1:" + port
	if err := listening(ctx, address); err != nil {
		return h.failed(err)
	}
	return w.add(ctx, self, "smokescreen", address, originName+":"+w.port, h.cmd.Process.Pid)
}

const (
	smokescreenList = "version: v1\nservices: []\ndefault: {project: bench, action: enforce, allowed_domains: [%s]}\n"
	smokescreenText = "acl_file: %s\nallow_missing_role: true\nallow_ranges: [127.0.0.0/8]\nresolver_addresses: [\"%s\"]\nstatsd_address: \"\"\n"
)

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return "", err
	}
	defer l.Close()
	return fmt.Sprint(portOf(l)), nil
}

func listening(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// addSage has a container with a network namespace of its own, in which there is
// loopback alone, under the profile agent. The client enters that namespace and
// the container's cgroup, of which alone the bridge takes connections, and so is
// under the guard; the price of a container's filters is measured elsewhere.
func (w *ways) addSage(ctx context.Context, self, bin string) (err error) {
	if w.runtime, err = newContender(w.lab, "proxied", bin); err != nil {
		return err
	}
	egress := filepath.Join(filepath.Dir(bin), "sage-egress")
	if err := copyFile(filepath.Join(filepath.Dir(w.runtime.bin), "sage-egress"), egress); err != nil {
		return err
	}
	if err := w.runtime.underHost(fmt.Sprintf(hostText, w.names, w.port)); err != nil {
		return err
	}
	id, pidFile := w.runtime.newID(), filepath.Join(w.runtime.root, "pid")
	if _, err := w.runtime.spawn(ctx, "run", "--detach", "--pid-file", pidFile, "--bundle", w.lab.bundle("sleep"), id); err != nil {
		return err
	}
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	group, pids, err := w.runtime.egressOf(id)
	if err != nil {
		return err
	}
	enter := []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, "nsenter", "--net=/proc/" + string(pid) + "/ns/net", self}
	return w.addBy(ctx, enter, "sage", "127.0.0.1:3128", originName+":"+w.port, pids...)
}

const hostText = `version: 1
default_profile: agent
egress: {nameservers: ["%s"], reachable: [127.0.0.0/8]}
profiles:
  sage: {defaults: {resources: {require_hard_limits: false}}}
  agent:
    defaults:
      resources: {require_hard_limits: false, cpu_percent: 400}
      network: {mode: allowlist, allowed_hosts: ["https://origin.test:%s"]}
`

// egressOf gives a container's cgroup, and the processes of its proxy and bridge.
func (r *contender) egressOf(id string) (group string, pids []int, err error) {
	data, err := os.ReadFile(filepath.Join(r.root, id, "sage-network.json"))
	if err != nil {
		return "", nil, err
	}
	var record struct {
		Cgroup        string
		Proxy, Bridge *struct{ Pid int }
	}
	if err := json.Unmarshal(data, &record); err != nil || record.Proxy == nil || record.Bridge == nil {
		return "", nil, fmt.Errorf("record of the network: %w, %s", err, data)
	}
	return record.Cgroup, []int{record.Proxy.Pid, record.Bridge.Pid}, nil
}

func (w *ways) close(ctx context.Context) error {
	var errs []error
	for _, way := range w.all {
		errs = append(errs, way.client.close())
	}
	for _, h := range w.others {
		if h.name == "smokescreen" {
			_ = h.cmd.Process.Kill() // it asks nobody for more
			_ = h.cmd.Wait()
			continue
		}
		errs = append(errs, h.close())
	}
	errs = append(errs, w.origin.close())
	if w.runtime != nil {
		errs = append(errs, w.runtime.deleteAll(context.WithoutCancel(ctx)))
	}
	return errors.Join(errs...)
}

// What one turn of each kind consists of.
const (
	turnRequests = 20
	pourMiB      = 512
	crowdWidth   = 16
	crowdEach    = 25
	turns        = 5 // of the two that take long
)

// measure takes turns, all ways in each, in an order drawn by lot.
func (w *ways) measure(ctx context.Context, requests int) error {
	for _, way := range w.all {
		way.idle = way.resident()
	}
	kinds := []struct {
		turns int
		do    func(*way) error
	}{{1, (*way).warm}, {requests / turnRequests, (*way).askOne}, {turns, (*way).pour}, {turns, (*way).crowd}}
	for _, kind := range kinds {
		for range kind.turns {
			for _, i := range rand.Perm(len(w.all)) {
				if err := errors.Join(ctx.Err(), kind.do(w.all[i])); err != nil {
					return err
				}
			}
		}
	}
	for _, way := range w.all {
		way.after = way.resident()
	}
	return nil
}

// warm is not counted: the first request faults in the program.
func (w *way) warm() error {
	_, err := w.client.ask("crowd", turnRequests, 2)
	return err
}

func (w *way) askOne() error {
	took, err := w.client.ask("requests", turnRequests, 0)
	for _, n := range took {
		w.requests = append(w.requests, time.Duration(n))
	}
	return err
}

func (w *way) pour() error {
	took, err := w.client.ask("pour", pourMiB, 0)
	if err == nil {
		w.pours = append(w.pours, pourMiB/time.Duration(took[0]).Seconds())
	}
	return err
}

func (w *way) crowd() error {
	before := w.onCPU()
	took, err := w.client.ask("crowd", crowdEach, crowdWidth)
	w.cpu, w.asked = w.cpu+w.onCPU()-before, w.asked+crowdEach*crowdWidth
	if err == nil {
		w.crowds = append(w.crowds, crowdEach*crowdWidth/time.Duration(took[0]).Seconds())
	}
	return err
}

// resident is what the way's own process holds of memory, in KiB: of sage the
// proxy, whose promise it is.
func (w *way) resident() int {
	if len(w.pids) == 0 {
		return 0
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pids[0]))
	_, rest, _ := strings.Cut(string(text), "\nVmRSS:")
	var n int
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// onCPU is the time that all threads of the way's processes have run.
func (w *way) onCPU() (sum time.Duration) {
	for _, pid := range w.pids {
		names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, name := range names {
			var ran int64
			text, _ := os.ReadFile(name)
			_, _ = fmt.Sscan(string(text), &ran)
			sum += time.Duration(ran)
		}
	}
	return sum
}
