package runtime

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// TestReadCounters: the file is the proxy's to write, so that it can be anything.
// What is no page of a plain file is refused at once: nothing waits for a FIFO,
// follows a link, or takes memory as the file says.
func TestReadCounters(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, size int64) {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(at(name), size); err != nil {
			t.Fatal(err)
		}
	}
	write("good", egress.CountersSize)
	if data, err := readCounters(at("good")); err != nil || !bytes.Equal(data, make([]byte, egress.CountersSize)) {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
	write("empty", 0)
	write("short", egress.CountersSize-8)
	write("long", 1<<40)
	for _, err := range []error{
		unix.Mkfifo(at("fifo"), 0o600), os.Symlink("good", at("link")), os.Mkdir(at("dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"empty", "short", "long", "fifo", "link", "dir", "missing"} {
		begin := time.Now()
		if data, err := readCounters(at(name)); err == nil || data != nil {
			t.Errorf("%s: got %d bytes, %v; want an error", name, len(data), err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// TestEgressStats: every counter is in what events prints, none twice.
func TestEgressStats(t *testing.T) {
	var c egress.Counts
	for i := range c {
		c[i] = uint64(100 + i)
	}
	c[egress.CounterDeniedECH] = 0
	s := egressStats(&c)
	got := []uint64{s.Allowed, s.Denied, s.Active, s.Held, s.Accepted, s.Limited, s.Failed, s.SentBytes, s.ReceivedBytes, s.DNSAllowed, s.DNSRefused, s.AuditLost}
	var want []uint64
	codes := map[errcode.Code]uint64{}
	for i, info := range egress.Counters {
		if info.Code == "" {
			want = append(want, c[i])
		} else if c[i] > 0 {
			codes[info.Code] = c[i]
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if diff := cmp.Diff(codes, s.DeniedByCode); diff != "" {
		t.Errorf("by code (-want +got):\n%s", diff)
	}
}

// TestMetricTable holds the names to Prometheus' conventions, and the chapter
// about them to the names.
func TestMetricTable(t *testing.T) {
	chapter, err := os.ReadFile("../cli/README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range metricTable() {
		if !strings.HasPrefix(m.Name, "sage_") || strings.Trim(m.Name, "abcdefghijklmnopqrstuvwxyz_") != "" || seen[m.Name] {
			t.Errorf("name %q", m.Name)
		}
		seen[m.Name] = true
		if m.Gauge == strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s: only what never goes down is a total", m.Name)
		}
		if !strings.HasSuffix(m.Help, ".") || strings.ContainsAny(m.Help, "\n\\") {
			t.Errorf("%s: help %q", m.Name, m.Help)
		}
		if !strings.Contains(string(chapter), "`"+m.Name+"`") {
			t.Errorf("internal/cli/README.md: saw no `%s`", m.Name)
		}
	}
}

// TestCgroupNumbers: of both versions of cgroups, from files as the kernel has
// them, and no limit where there is none.
func TestCgroupNumbers(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		v1 + "/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", v1 + "/pids.events": "max 4\n",
		v2 + "/memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 1\n", v2 + "/pids.events": "max 5\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	memory := func(usage, limit uint64, key string, inactive uint64) *cgroups.MemoryStats {
		s := cgroups.NewStats().MemoryStats
		s.Usage = cgroups.MemoryData{Usage: usage, Limit: limit}
		s.SwapOnlyUsage.Usage = 8
		s.Stats["inactive_file"], s.Stats[key] = 1, inactive
		return &s
	}
	const page = 4096
	for name, tt := range map[string]struct {
		paths  map[string]string
		memory *cgroups.MemoryStats
		pids   cgroups.PidsStats
		want   map[string]float64
	}{
		"v2": {
			map[string]string{"": v2},
			memory(100, 200, "inactive_file", 30),
			cgroups.PidsStats{Current: 2, Limit: 64},
			map[string]float64{
				"sage_memory_usage_bytes": 100, "sage_memory_working_set_bytes": 70, "sage_memory_swap_bytes": 8, "sage_memory_limit_bytes": 200,
				"sage_memory_oom_kills_total": 1, "sage_pids": 2, "sage_pids_limit": 64, "sage_pids_refused_total": 5,
			},
		},
		"v1 beside v2, no limits": {
			map[string]string{"": v2, "memory": v1, "pids": v1},
			memory(100, 1<<63-page, "total_inactive_file", 300),
			cgroups.PidsStats{Current: 2},
			map[string]float64{
				"sage_memory_usage_bytes": 100, "sage_memory_working_set_bytes": 0, "sage_memory_swap_bytes": 8,
				"sage_memory_oom_kills_total": 3, "sage_pids": 2, "sage_pids_refused_total": 4,
			},
		},
		"no cgroup": {
			nil, memory(0, 1<<64-1, "inactive_file", 0),
			cgroups.PidsStats{},
			map[string]float64{"sage_memory_usage_bytes": 0, "sage_memory_working_set_bytes": 0, "sage_memory_swap_bytes": 8, "sage_pids": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reading{}
			r.memory(tt.memory, tt.paths)
			r.pids(&tt.pids, tt.paths)
			got := map[string]float64{}
			for _, n := range r.numbers {
				got[n.metric] = n.value
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMetricsOfNoContainers: what lies below the root and is no container, or is
// about to be one, ends nothing.
func TestMetricsOfNoContainers(t *testing.T) {
	h := &Host{Root: t.TempDir()}
	for _, name := range []string{"begun", "broken", "no\nid"} {
		if err := os.Mkdir(filepath.Join(h.Root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"broken/state.json": "{", "file": ""} {
		if err := os.WriteFile(filepath.Join(h.Root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	metrics, failures, err := h.Metrics()
	if err != nil || len(failures) != 2 || len(metrics) != 1 || metrics[0].Name != "sage_scrape_error" {
		t.Fatalf("got %+v, %v, %v; want two parts that cannot be read", metrics, failures, err)
	}
	want := []Sample{
		{[]Label{{"id", "broken"}, {"profile", ""}, {"part", "state"}}, 1},
		{[]Label{{"id", "no\nid"}, {"profile", ""}, {"part", "state"}}, 1},
	}
	if diff := cmp.Diff(want, metrics[0].Samples); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
