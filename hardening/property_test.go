package hardening

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// Proves: S-020, G-27.
func TestApplyIsNeverLooser(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for round := range 600 {
		s := loadBundle(t, engineBundles[round%len(engineBundles)])
		for range random.IntN(4) {
			mutate(reflect.ValueOf(s).Elem(), random)
		}
		p := []func() spec.Policy{strict, loose}[random.IntN(2)]()
		p.Files.SharedNamespaces = loose().Files.SharedNamespaces
		p.Files.Hooks = loose().Files.Hooks
		if checkApply(t, s, p, plainFacts(s)) {
			accepted++
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	if accepted < 100 || accepted > 500 {
		t.Errorf("got %d of 600 bundles accepted, want some of both", accepted)
	}
}

// checkApply holds one application to everything that is always true, and tells
// whether the bundle was accepted.
func checkApply(t *testing.T, s *specs.Spec, p spec.Policy, f Facts) bool {
	t.Helper()
	before := deepCopy(s)
	r, err := Apply(s, p, f)
	if diff := cmp.Diff(s, before); diff != "" {
		t.Errorf("got the bundle changed: %s", diff)
	}
	if (r.Spec == nil) != (err != nil) {
		t.Fatalf("got spec %v and error %v, want one of them", r.Spec, err)
	}
	if err != nil {
		return false
	}
	checkHardened(t, r.Spec, p)
	for _, what := range looser(s, r.Spec, f) {
		t.Errorf("got %s looser than the bundle had it", what)
	}
	again, err := Apply(r.Spec, p, factsAfter(s, r.Spec, f))
	if err != nil {
		t.Fatalf("got %v for the result, want it accepted: %s", err, text(r.Spec))
	}
	if diff := cmp.Diff(again.Spec, r.Spec); diff != "" {
		t.Errorf("got another result the second time: %s", diff)
	}
	if again.Filter.Digest() != r.Filter.Digest() {
		t.Errorf("got another filter the second time: %+v, %+v", again.Network, r.Network)
	}
	return true
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// factsAfter are the facts of a hardened bundle: those of the mount that each
// came from, and for the others what their path says.
func factsAfter(before, after *specs.Spec, f Facts) Facts {
	known := f.Mounts
	f.Mounts = nil
	for _, m := range after.Mounts {
		facts := plainMount(m)
		for i := range before.Mounts {
			if known[i].Destination == m.Destination && known[i].Source == m.Source {
				facts = known[i]
			}
		}
		f.Mounts = append(f.Mounts, facts)
	}
	return f
}

// looser names what the hardened bundle allows and the bundle did not.
func looser(was, now *specs.Spec, f Facts) []string {
	var out []string
	check := func(ok bool, what string) {
		if !ok {
			out = append(out, what)
		}
	}
	if c := was.Process.Capabilities; c != nil {
		check(len(without(now.Process.Capabilities.Bounding, c.Bounding)) == 0, "bounding capabilities")
		check(len(without(now.Process.Capabilities.Effective, c.Effective)) == 0, "effective capabilities")
		check(len(without(now.Process.Capabilities.Permitted, c.Permitted)) == 0, "permitted capabilities")
		check(len(without(now.Process.Capabilities.Ambient, c.Ambient)) == 0, "ambient capabilities")
	}
	check(now.Root.Readonly || !was.Root.Readonly, "the root")
	check(len(without(was.Linux.MaskedPaths, now.Linux.MaskedPaths)) == 0, "masked paths")
	check(len(without(was.Linux.ReadonlyPaths, now.Linux.ReadonlyPaths)) == 0, "read-only paths")
	check(len(was.Linux.Namespaces) <= len(now.Linux.Namespaces), "namespaces")
	check(len(now.Linux.Devices) <= len(was.Linux.Devices), "devices")
	check(len(now.Process.Env) <= len(was.Process.Env), "the environment")
	for _, l := range was.Process.Rlimits {
		i := slices.IndexFunc(now.Process.Rlimits, func(n specs.POSIXRlimit) bool { return n.Type == l.Type })
		check(i >= 0 && now.Process.Rlimits[i].Hard <= l.Hard && now.Process.Rlimits[i].Soft <= l.Soft, l.Type)
	}
	out = append(out, looserResources(was.Linux.Resources, now.Linux.Resources)...)
	return append(out, looserMounts(was, now, f)...)
}

func looserResources(was, now *specs.LinuxResources) []string {
	if was == nil {
		return nil
	}
	var out []string
	if was.Memory != nil && (raises(value(was.Memory.Limit), value(now.Memory.Limit)) || value(was.Memory.Limit) > 0 && raises(value(was.Memory.Swap), value(now.Memory.Swap))) {
		out = append(out, "memory")
	}
	if was.Pids != nil && was.Pids.Limit != nil && raises(max(*was.Pids.Limit, 1), value(now.Pids.Limit)) && *was.Pids.Limit >= 0 {
		out = append(out, "pids")
	}
	if was.CPU != nil {
		quota, period := bandwidth(was.CPU.Quota, was.CPU.Period)
		if q, per := bandwidth(now.CPU.Quota, now.CPU.Period); quota > 0 && !atMost(q, per, quota, period) {
			out = append(out, "cpu")
		}
	}
	return out
}

func looserMounts(was, now *specs.Spec, f Facts) []string {
	var out []string
	at := 0
	for i, m := range was.Mounts {
		// What was added lies between the others, which keep their order.
		for at < len(now.Mounts) && now.Mounts[at].Destination != f.Mounts[i].Destination {
			at++
		}
		if at == len(now.Mounts) {
			return append(out, "the mount at "+m.Destination+", which is gone,")
		}
		for _, option := range []string{"ro", "nosuid", "nodev", "noexec"} {
			if runcHas(m.Options, option) && !slices.Contains(now.Mounts[at].Options, option) {
				out = append(out, fmt.Sprintf("%s of %v, now %v,", option, m, now.Mounts[at]))
			}
		}
		at++
	}
	return out
}

// runcHas reads options as libcontainer does: the last of two opposites wins.
// A device mount's nodev is no restriction that it could have.
func runcHas(options []string, option string) bool {
	has := false
	opposite := map[string]string{"ro": "rw", "nosuid": "suid", "nodev": "dev", "noexec": "exec"}[option]
	for _, o := range options {
		switch o {
		case option:
			has = true
		case opposite:
			has = false
		}
	}
	return has
}

// words are what mutate writes into text: names that mean something somewhere.
var words = strings.Fields(`
	/ /proc /sys /dev/shm /run/sage /etc /data /srv/work/a bind rbind ro rw suid dev exec rshared rslave size=0 size=1g
	tmpfs proc sysfs overlay pid network user time host CAP_SYS_ADMIN CAP_KILL CAP_GOD c b a rwm SCMP_ACT_NOTIFY
	RLIMIT_NOFILE RLIMIT_CORE PATH=/x _LIBCONTAINER_X=1 A=1 A=2 net.ipv4.ip_forward memory.max 4096 .. unconfined`)

// mutate changes one field of v, or of what it holds, at random.
func mutate(v reflect.Value, random *rand.Rand) {
	switch v.Kind() { //nolint:exhaustive // the specification has no others
	case reflect.Struct:
		mutate(v.Field(random.IntN(v.NumField())), random)
	case reflect.Pointer:
		if v.IsNil() || random.IntN(8) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
		}
		mutate(v.Elem(), random)
	case reflect.Slice:
		mutateSlice(v, random)
	case reflect.Map:
		mutateMap(v, random)
	case reflect.String:
		v.SetString(words[random.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt([]int64{0, 1, -1, 7, 1<<31 - 1}[random.IntN(5)])
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{0, 1, 7, 1 << 15}[random.IntN(4)])
	default:
	}
}

func mutateSlice(v reflect.Value, random *rand.Rand) {
	switch n := random.IntN(8); {
	case n == 0:
		v.SetZero()
	case n < 3 || v.Len() == 0:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
		mutate(v.Index(v.Len()-1), random)
	default:
		mutate(v.Index(random.IntN(v.Len())), random)
	}
}

func mutateMap(v reflect.Value, random *rand.Rand) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	value := reflect.New(v.Type().Elem()).Elem()
	mutate(value, random)
	v.SetMapIndex(reflect.ValueOf(words[random.IntN(len(words))]).Convert(v.Type().Key()), value)
}

// FuzzApply takes a bundle and what is known of the host as JSON.
func FuzzApply(f *testing.F) {
	for _, name := range engineBundles {
		data, err := os.ReadFile(filepath.Join("testdata", "bundles", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		var s specs.Spec
		if err := json.Unmarshal(data, &s); err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(text(plainFacts(&s))), true)
		f.Add(data, []byte(text(plainFacts(&s))), false)
	}
	f.Fuzz(func(t *testing.T, bundle, facts []byte, hard bool) {
		var s specs.Spec
		var known Facts
		if json.Unmarshal(bundle, &s) != nil || json.Unmarshal(facts, &known) != nil {
			return
		}
		p := loose()
		if hard {
			p = strict()
		}
		// The number is the host's and not the bundle's, and only costs time.
		known.CPUs = min(known.CPUs, 4)
		checkApply(t, &s, p, known)
	})
}

// FuzzTighter accepts no update that lifts a limit, by the plain comparison of
// the numbers that come out.
func FuzzTighter(f *testing.F) {
	f.Add(int64(1000), int64(1000), int64(10), int64(500), int64(500), int64(5))
	f.Add(int64(0), int64(0), int64(0), int64(-1), int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, limit, swap, pids, newLimit, newSwap, newPids int64) {
		set := func(limit, swap, pids int64) *specs.LinuxResources {
			return &specs.LinuxResources{
				Memory: &specs.LinuxMemory{Limit: &limit, Swap: &swap}, Pids: &specs.LinuxPids{Limit: &pids},
			}
		}
		if Tighter(set(limit, swap, pids), set(newLimit, newSwap, newPids)) != nil {
			return
		}
		for _, c := range [][2]int64{{limit, newLimit}, {swap, newSwap}, {pids, newPids}} {
			if c[1] < 0 || c[0] > 0 && c[1] > c[0] {
				t.Errorf("got %d instead of %d accepted, want it refused", c[1], c[0])
			}
		}
	})
}
