package sampler

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/state"
)

// TestJudge: a mark explains a kill and nothing else.
//
// Proves: E-041, G-28.
func TestJudge(t *testing.T) {
	mark := &state.Ending{Reason: state.Timeout, Detail: "ran for 5 s"}
	output := &state.Ending{Reason: state.OutputLimit, Detail: "wrote more than 5 bytes"}
	oom := counters{oomKills: 2}
	const killed = "the kernel killed 2 of its processes for want of memory"
	for name, tt := range map[string]struct {
		status int
		mark   *state.Ending
		seen   counters
		want   state.Ending
	}{
		"success":                    {0, nil, counters{}, state.Ending{Reason: state.Exited}},
		"failure":                    {3, nil, counters{}, state.Ending{Reason: state.Exited}},
		"signal":                     {139, nil, counters{}, state.Ending{Reason: state.Signaled}},
		"killed by somebody":         {137, nil, counters{}, state.Ending{Reason: state.Signaled}},
		"killed for its time":        {137, mark, counters{}, *mark},
		"its time and its memory":    {137, mark, oom, *mark},
		"ended while its time ended": {0, mark, counters{}, state.Ending{Reason: state.Exited}},
		"killed for its output":      {137, output, counters{}, *output},
		"ended before the kill":      {0, output, counters{}, *output},
		"memory":                     {137, nil, oom, state.Ending{Reason: state.OOMKilled, Detail: killed}},
		"memory of a child":          {1, nil, oom, state.Ending{Reason: state.Exited, Detail: killed}},
		"file size":                  {153, nil, counters{}, state.Ending{Reason: state.FileSizeLimit}},
		"processes":                  {2, nil, counters{pidsMax: 4}, state.Ending{Reason: state.PidsLimit, Detail: "max_processes kept it from a process 4 times"}},
		"processes, and went well":   {0, nil, counters{pidsMax: 4}, state.Ending{Reason: state.Exited, Detail: "max_processes kept it from a process 4 times"}},
		"disk":                       {1, nil, counters{diskFull: true}, state.Ending{Reason: state.DiskQuota, Detail: "it had used up its disk quota"}},
		"killed with a full disk":    {137, nil, counters{diskFull: true}, state.Ending{Reason: state.Signaled, Detail: "it had used up its disk quota"}},
		"a status above signals":     {200, nil, counters{}, state.Ending{Reason: state.Exited}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(tt.status, tt.mark, tt.seen)); diff != "" {
				t.Errorf("ending (-want +got):\n%s", diff)
			}
		})
	}
}

func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// TestEvents reads both versions' files.
func TestEvents(t *testing.T) {
	v2 := files(t, map[string]string{
		"memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", "pids.events": "max 7\n",
	})
	memory := files(t, map[string]string{"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"})
	pids := files(t, map[string]string{"pids.events": "max 7\n"})
	for name, dirs := range map[string]map[string]string{
		"v2": {"": v2}, "v1": {"memory": memory, "pids": pids, "cpu": t.TempDir()},
	} {
		if got, want := cgroups(dirs).events(), (counters{oomKills: 2, pidsMax: 7}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if got := cgroups(map[string]string{"": "/nonexistent"}).events(); got != (counters{}) {
		t.Errorf("a cgroup that is gone: got %+v, want zeros", got)
	}
}

// TestUnheld: what the kernel limits to no more is not sampled.
func TestUnheld(t *testing.T) {
	all := Limits{MemoryBytes: 1 << 20, Processes: 10, CPUQuota: 50_000}
	for name, tt := range map[string]struct {
		dirs map[string]string
		want Limits
	}{
		"v2": {map[string]string{"": files(t, map[string]string{"memory.max": "1048576\n", "pids.max": "10\n", "cpu.max": "50000 100000\n"})}, Limits{}},
		"v2 without": {
			map[string]string{"": files(t, map[string]string{"memory.max": "max\n", "pids.max": "11\n", "cpu.max": "max 100000\n"})}, all,
		},
		"v1": {map[string]string{
			"": t.TempDir(), "memory": files(t, map[string]string{"memory.limit_in_bytes": "4096\n"}),
			"pids": files(t, map[string]string{"pids.max": "max\n"}), "cpu": files(t, map[string]string{"cpu.cfs_quota_us": "-1\n"}),
		}, Limits{Processes: 10, CPUQuota: 50_000}},
		"no cgroup": {nil, all},
	} {
		if got := Unheld(tt.dirs, all); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestParseStat: the name is the process's to choose.
func TestParseStat(t *testing.T) {
	const rest = " S 1 7 7 0 -1 4194560 100 0 0 0 11 22 0 0 20 0 3 0 98765 1000000 250 18446744073709551615 1"
	for _, name := range []string{"sh", "a) R 9 9", "((", "x\ny"} {
		got, err := parseStat("42 (" + name + ")" + rest)
		if want := (stat{state: 'S', ticks: 33, threads: 3, start: 98765, rss: 250}); err != nil || got != want {
			t.Errorf("name %q: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, text := range []string{"", "42 (sh", "42 (sh) S 1", "42 (sh)" + " S x" + rest[4:]} {
		if got, err := parseStat(text); err == nil && text != "42 (sh) S x"+rest[4:] {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func sleeper(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p, err := Identify(cmd.Process.Pid)
	must(t, err)
	return cmd, p
}

// watched is a plan for a process of ours, in a cgroup that is a plain folder.
func watched(t *testing.T, p Process) (*Plan, string) {
	t.Helper()
	return &Plan{ID: "c", Init: p, Cgroups: map[string]string{"x": files(t, map[string]string{"cgroup.procs": ""})}}, t.TempDir()
}

// TestWatchTimeout: the process is killed when its time is up, and the mark is
// there by then.
func TestWatchTimeout(t *testing.T) {
	cmd, p := sleeper(t)
	plan, dir := watched(t, p)
	plan.Seconds = 1
	since := time.Now()
	w, err := Begin(plan, dir)
	must(t, err)
	_ = cmd.Wait()
	if took := time.Since(since); took < time.Second {
		t.Errorf("ended after %v, want one second", took)
	}
	w.Wait()
	if mark, err := state.Marked(dir); err != nil || mark == nil || mark.Reason != state.Timeout {
		t.Errorf("got mark %+v, %v, want a timeout", mark, err)
	}
}

// TestWatchStop: a watch that is stopped kills nothing, and leaves no descriptor
// open.
func TestWatchStop(t *testing.T) {
	_, p := sleeper(t)
	plan, dir := watched(t, p)
	plan.Seconds = 1000
	w, err := Begin(plan, dir)
	must(t, err)
	w.Stop()
	w.Wait()
	if !p.Alive() {
		t.Error("the process is gone")
	}
	if mark, _ := state.Marked(dir); mark != nil {
		t.Errorf("got mark %+v, want none", mark)
	}
}

// TestWatchFails: whatever goes wrong in the watch ends what is watched.
//
// Proves: S-152.
func TestWatchFails(t *testing.T) {
	for name, spoil := range map[string]func(*Plan){
		"a place that is gone": func(p *Plan) {
			p.Limits = Limits{DiskBytes: 1, Entries: 1}
			p.Places = []Place{{Path: "/nonexistent"}}
		},
		"a cgroup that is gone": func(p *Plan) { p.Limits.Processes, p.Cgroups = 1, nil },
	} {
		t.Run(name, func(t *testing.T) {
			cmd, p := sleeper(t)
			plan, dir := watched(t, p)
			spoil(plan)
			_, err := Begin(plan, dir)
			must(t, err)
			_ = cmd.Wait()
			if mark, _ := state.Marked(dir); mark == nil || mark.Reason != state.SamplerLost {
				t.Errorf("got mark %+v, want sampler_lost", mark)
			}
		})
	}
	t.Run("a panic", func(t *testing.T) {
		cmd, p := sleeper(t)
		plan, dir := watched(t, p)
		init, err := p.open()
		must(t, err)
		w := &Watch{plan: plan, dir: dir, init: init, exited: make(chan struct{}), done: make(chan struct{})}
		go func() { init.wait(); close(w.exited) }()
		w.guard(func() verdict { panic("test") })
		_ = cmd.Wait()
		if mark, _ := state.Marked(dir); mark == nil || mark.Reason != state.SamplerLost {
			t.Errorf("got mark %+v, want sampler_lost", mark)
		}
	})
	t.Run("the partner", func(t *testing.T) {
		cmd, p := sleeper(t)
		plan, dir := watched(t, p)
		r, w := io.Pipe()
		_, err := begin(plan, dir, r)
		must(t, err)
		must(t, w.Close())
		_ = cmd.Wait()
		if mark, _ := state.Marked(dir); mark == nil || mark.Reason != state.SamplerLost {
			t.Errorf("got mark %+v, want sampler_lost", mark)
		}
	})
}

// TestProcess: a number that is another's by now is not opened.
func TestProcess(t *testing.T) {
	_, p := sleeper(t)
	if !p.Alive() {
		t.Error("got it dead")
	}
	other := p
	other.Start--
	if h, err := other.open(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %v, want fs.ErrNotExist", h, err)
	}
	if other.Alive() {
		t.Error("got another's number alive")
	}
}

// TestClaim: only a process that lives watches.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	if claimed, err := Claimed(dir); claimed || err != nil {
		t.Errorf("nobody: got %v, %v", claimed, err)
	}
	must(t, Claim(dir))
	if claimed, err := Claimed(dir); !claimed || err != nil {
		t.Errorf("this process: got %v, %v", claimed, err)
	}
	must(t, writeJSON(dir, claimName, Process{Pid: os.Getpid(), Start: 1}))
	if claimed, err := Claimed(dir); claimed || err != nil {
		t.Errorf("one that is gone: got %v, %v", claimed, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, claimName), []byte("{"), 0o600))
	if claimed, err := Claimed(dir); claimed || err == nil {
		t.Errorf("cut short: got %v, %v, want an error", claimed, err)
	}
}

// TestPlan: what is saved is what is loaded, and nothing is no plan.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	if p, err := Load(dir); p != nil || err != nil {
		t.Errorf("got %v, %v, want none", p, err)
	}
	want := &Plan{
		ID: "c", Init: Process{7, 8}, Cgroups: map[string]string{"": "/c"}, Seconds: 1 << 40,
		Limits: Limits{DiskBytes: 1}, Places: []Place{{"/p", Usage{2, 3}}},
	}
	must(t, want.Save(dir))
	got, err := Load(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("plan (-want +got), %v:\n%s", err, diff)
	}
	if got.timeout() <= 0 {
		t.Errorf("got a timeout of %v for 2^40 seconds", got.timeout())
	}
	if (&Plan{}).Needed() || !got.Needed() {
		t.Error("got what needs a watch wrong")
	}
}

// TestThrottle: the rest is as long as brings the share down to what is granted.
func TestThrottle(t *testing.T) {
	now := time.Unix(1000, 0)
	at := throttle{last: now, used: time.Second}
	for name, tt := range map[string]struct {
		used  time.Duration
		quota int64
		want  time.Duration
	}{
		"within":                {1020 * time.Millisecond, 20_000, 0},
		"all of a core":         {1100 * time.Millisecond, 20_000, 400 * time.Millisecond},
		"two cores, one allows": {1200 * time.Millisecond, 100_000, 100 * time.Millisecond},
		"others ended":          {900 * time.Millisecond, 20_000, 0},
	} {
		if got := at.over(now.Add(100*time.Millisecond), tt.used, tt.quota); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if got := (&throttle{}).over(now, time.Hour, 1000); got != 0 {
		t.Errorf("the first look: got %v, want 0", got)
	}
}
