//go:build kernel

package egress

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

func scrape(t *testing.T, r *harness.Runtime) (exposed, string) {
	t.Helper()
	res := r.Must(t, "metrics")
	return parse(t, res.Stdout), res.Stderr
}

// counted is what events prints of the proxy; nil where it prints nothing.
type counted struct {
	Accepted, Allowed, Denied uint64
	ByCode                    map[string]uint64 `json:"denied_by_code"`
	Sent                      uint64            `json:"sent_bytes"`
	Received                  uint64            `json:"received_bytes"`
	Active                    *uint64           `json:"active_connections"`
	DNSAllowed                uint64            `json:"dns_allowed"`
	DNSRefused                uint64            `json:"dns_refused"`
}

// eventOf decodes what containerd's shim would, and beside it what is sage's.
func eventOf(t *testing.T, line string) (keys map[string]json.RawMessage, c *counted) {
	t.Helper()
	var e struct {
		Type string
		Data map[string]json.RawMessage
	}
	var sage struct{ Egress *counted }
	err := json.Unmarshal([]byte(line), &e)
	if err == nil && e.Data["sage"] != nil {
		err = json.Unmarshal(e.Data["sage"], &sage)
	}
	if err != nil || e.Type != "stats" {
		t.Fatalf("event: %v, %s", err, line)
	}
	return e.Data, sage.Egress
}

const hostDenied = "sandbox.egress_host_denied"

// What a proxy decided is in events and in metrics, from the start of the program
// on and until the container is deleted. A container without one has neither.
func TestCounters(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r, id, none := w.runtime(t), harness.NewID(), harness.NewID()
	r.Must(t, "create", "--bundle", w.bundle(t, nil, "sleep 600s"), id)
	r.Must(t, "create", "--bundle", w.bundle(t, annotate("network.mode", "none"), "sleep 600s"), none)
	if keys, c := eventOf(t, r.Must(t, "events", "--stats", id).Stdout); c != nil || keys["sage"] != nil {
		t.Errorf("created: got %+v, want no counters before there is a proxy", keys)
	}
	if m, _ := scrape(t, r); m.of("sage_container_running", id, "agent", "") != 0 || m.of("sage_egress_accepted_total", id, "agent", "") != -1 {
		t.Errorf("created: got %v", m)
	}
	r.Must(t, "start", id)
	r.Must(t, "start", none)
	does := []string{"get " + w.url("https", "allowed.test"), "get " + w.url("http", "allowed.test"), "get " + w.url("https", "denied.test"), "lookup denied.test", "direct " + w.url("https", "allowed.test")}
	r.Must(t, append([]string{"exec", id}, w.args(does...)...)...)

	var c *counted
	harness.Eventually(t, "the connections are counted, and over", func() bool {
		_, c = eventOf(t, r.Must(t, "events", "--stats", id).Stdout)
		return c != nil && c.Allowed == 3 && c.Active != nil && *c.Active == 0
	})
	if c.Accepted < 4 || c.Denied != 1 || c.ByCode[hostDenied] != 1 || len(c.ByCode) != 1 || c.Sent < 100 || c.Received < 100 || c.DNSAllowed == 0 || c.DNSRefused == 0 {
		t.Errorf("got %+v", c)
	}
	keys, c2 := eventOf(t, r.Must(t, "events", "--stats", none).Stdout)
	if c2 != nil || keys["sage"] != nil || keys["cpu"] == nil {
		t.Errorf("mode none: got %+v, want runc's keys alone", keys)
	}

	m, said := scrape(t, r)
	for metric, want := range map[string]float64{
		"sage_container_running": 1, "sage_egress_proxy_up": 1, "sage_egress_allowed_total": 3, "sage_egress_active_connections": 0,
		"sage_egress_accepted_total": float64(c.Accepted), "sage_egress_sent_bytes_total": float64(c.Sent), "sage_egress_received_bytes_total": float64(c.Received),
		"sage_egress_dns_refused_total": float64(c.DNSRefused), "sage_scrape_error": -1, "sage_disk_used_bytes": -1,
	} {
		if got := m.of(metric, id, "agent", ""); got != want {
			t.Errorf("%s: got %v, want %v", metric, got, want)
		}
	}
	for code, want := range map[string]float64{hostDenied: 1, "sandbox.egress_sni_mismatch": 0, "other": -1} {
		if got := m.of("sage_egress_denied_total", id, "agent", `,code="`+code+`"`); got != want {
			t.Errorf("denials with %s: got %v, want %v", code, got, want)
		}
	}
	for _, metric := range []string{"sage_memory_usage_bytes", "sage_memory_working_set_bytes", "sage_cpu_seconds_total", "sage_pids"} {
		if m.of(metric, id, "agent", "") <= 0 || m.of(metric, none, "agent", "") <= 0 {
			t.Errorf("%s: got %v and %v, want what the cgroup has", metric, m.of(metric, id, "agent", ""), m.of(metric, none, "agent", ""))
		}
	}
	if m.of("sage_egress_allowed_total", none, "agent", "") != -1 || m.of("sage_egress_proxy_up", none, "agent", "") != -1 || said != "" {
		t.Errorf("mode none: got counters of a proxy, or %q", said)
	}

	kill(t, servingOf(t, r, id).Proxy.Pid)
	if m, _ := scrape(t, r); m.of("sage_egress_proxy_up", id, "agent", "") != 0 || m.of("sage_egress_allowed_total", id, "agent", "") != 3 {
		t.Errorf("the proxy is dead: got %v", m)
	}
	kill(t, pidOf(t, r, id))
	harness.Eventually(t, "the container is stopped", func() bool {
		m, _ = scrape(t, r)
		return m.of("sage_container_running", id, "agent", "") == 0
	})
	if m.of("sage_egress_proxy_up", id, "agent", "") != -1 || m.of("sage_memory_usage_bytes", id, "agent", "") != -1 || m.of("sage_egress_allowed_total", id, "agent", "") != 3 {
		t.Errorf("stopped: got %v, want what is not over alone", m)
	}
	r.Must(t, "delete", id)
	if m, said := scrape(t, r); m.has(id) || !m.has(none) || said != "" {
		t.Errorf("deleted: got %v, %q", m, said)
	}
}

// A proxy in other hands has its file of counters open for writing. Whatever it
// makes of that, others are counted, nothing waits, and it is told.
func TestHostileCounters(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r, id, other := w.runtime(t), harness.NewID(), harness.NewID()
	for _, id := range []string{id, other} {
		r.Must(t, "create", "--bundle", w.bundle(t, nil, "sleep 600s"), id)
		r.Must(t, "start", id)
	}
	file := filepath.Join(r.Root, id, "egress", "counters")
	for _, tt := range []struct {
		name string
		do   func() error
	}{
		{"cut off", func() error { return os.Truncate(file, 0) }},
		{"half a word", func() error { return os.Truncate(file, 4) }},
		{"a tebibyte", func() error { return os.Truncate(file, 1<<40) }},
		{"all ones", func() error { return os.WriteFile(file, []byte(strings.Repeat("\xff", 4096)), 0o600) }},
		// The proxy has no way to do these; they say that nothing depends on that.
		{"nothing", func() error { return os.Remove(file) }},
		{"a FIFO", func() error { return syscall.Mkfifo(file, 0o600) }},
		{"a link", func() error { return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file)) }},
	} {
		name := tt.name
		if err := tt.do(); err != nil {
			t.Fatal(name, err)
		}
		m, said := scrape(t, r)
		if m.of("sage_scrape_error", id, "agent", `,part="egress"`) != 1 || !strings.Contains(said, "container "+id+": egress: ") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: got %v, %q; want it told", name, m, said)
		}
		if m.of("sage_egress_accepted_total", id, "agent", "") != -1 || m.of("sage_memory_usage_bytes", id, "agent", "") <= 0 || m.of("sage_egress_accepted_total", other, "agent", "") != 0 {
			t.Errorf("%s: got %v, want all but this one's counters", name, m)
		}
		res := r.Must(t, "events", "--stats", id)
		if keys, c := eventOf(t, res.Stdout); c != nil || keys["cpu"] == nil || !strings.Contains(res.Stderr, "egress") {
			t.Errorf("%s: got %s, want runc's keys and a warning", name, res)
		}
	}
}

// Scrapes while containers come and go: each is whole, and what is half made or
// half gone is told of as no failure.
func TestScrapeWhileTheyGo(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	r := w.runtime(t)
	dir := w.bundle(t, nil, "lookup allowed.test")
	scrapes := 0
	for range 6 {
		run := r.Start(t, "run", "--bundle", dir, harness.NewID())
		for ; alive(run.Cmd.Process.Pid); scrapes++ {
			if _, said := scrape(t, r); said != "" {
				t.Errorf("said %q", said)
			}
		}
		if res := run.Wait(t); res.Code != 0 {
			t.Fatalf("run: %s", res)
		}
	}
	if m, _ := scrape(t, r); len(m) != 1 {
		t.Errorf("got %v after %d scrapes, want the version alone", m, scrapes)
	}
}

// Who is in a namespace with others has no path for programs that know of no
// proxy, and policy says so; it also says what holds the disk.
func TestPolicyShared(t *testing.T) {
	w := newWorld(t, "127.0.0.1")
	s := harness.NewSpace(t)
	r := w.runtime(t)
	res := r.Must(t, "policy", "--bundle", w.bundle(t, func(b *specs.Spec) {
		for i, ns := range b.Linux.Namespaces {
			if ns.Type == specs.NetworkNamespace {
				b.Linux.Namespaces[i].Path = s.Path
			}
		}
	}))
	for _, line := range []string{
		"programs that know of no proxy: no, because the network namespace is not the container's own",
		"disk project: none, because resources.require_hard_limits is false",
	} {
		if !strings.Contains(res.Stdout, line) {
			t.Errorf("saw no %q in\n%s", line, res.Stdout)
		}
	}
}
