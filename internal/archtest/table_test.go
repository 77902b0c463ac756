package archtest

import (
	"maps"
	"slices"
)

const module = "github.com/sage-sandbox/sage"

// parts are the packages that decide and act on one facility each; above
// them stands internal/runtime, which may import every one.
var parts = map[string][]string{
	// Pure: values and decisions.
	"internal/errcode":   {},
	"egress":             {"internal/errcode"},
	"egress/clienthello": {},
	"quota":              {"internal/errcode"},
	"quota/readback":     {"spec", "internal/errcode"},
	"spec":               {"egress", "quota", "internal/errcode"},
	"hardening":          {"spec", "hardening/seccomp", "internal/errcode"},
	"hardening/seccomp":  {"spec", "internal/errcode"},
	"darwin-seatbelt":    {"spec", "egress", "internal/errcode"},

	// Mechanism: one kernel, network or disk facility each.
	"internal/fault": {},
	"internal/sys":   {"internal/errcode"},
	// How the Go runtime itself behaves; main has it set up before all else.
	"internal/sysmon": {},
	// The two programs that serve a container give up what they can do in one way.
	"egress/confine": {"internal/sys", "internal/errcode"},
	"egress/proxy":   {"egress", "egress/clienthello", "egress/confine", "internal/sys", "internal/errcode"},
	"egress/bridge":  {"egress", "egress/clienthello", "egress/confine", "internal/sys", "internal/errcode"},
	"egress/guard":   {"egress", "egress/clienthello", "internal/sys", "internal/errcode"},
	"quota/xfs":      {"quota", "internal/sys", "internal/errcode"},
	"internal/state": {"spec", "internal/errcode"},
}

// wholes are the packages that join the parts, and what stands beside them.
var wholes = map[string][]string{
	// It says why a container ended where the others look for that.
	"internal/sampler": {"spec", "quota/xfs", "internal/sys", "internal/errcode", "egress", "internal/state"},
	"internal/audit":   {"spec", "quota/xfs", "internal/sys", "internal/errcode", "egress", "internal/state"},
	"internal/doctor":  {"spec", "quota/xfs", "internal/sys", "internal/errcode", "egress"},
	// It prepares the host for quota/xfs, and takes the mount that this accepts.
	"internal/setup": {"spec", "quota", "quota/xfs", "internal/sys", "internal/doctor", "internal/errcode"},
	"internal/cli": {
		"internal/runtime", "internal/doctor", "internal/setup", "internal/state", "spec", "egress", "internal/errcode",
	},
	// The shim watches in its own process, which is there anyhow.
	"internal/shim": {"internal/errcode", "internal/audit", "internal/sampler", "internal/state"},

	"cmd/sage-runtime":            {"internal/cli", "internal/sysmon"},
	"cmd/containerd-shim-sage-v2": {"internal/shim"},
	"cmd/sage-egress":             {"egress/proxy", "egress/bridge"},

	// Tests of the module's shape, and tests that drive the built binaries: the
	// latter see the product as its users do, so they import nothing of it.
	"internal/archtest":         {},
	"integration/harness":       {},
	"integration/caller":        {},
	"integration/kernel":        {"integration/harness"},
	"integration/egress":        {"integration/caller", "integration/harness"},
	"integration/workload":      {"integration/harness"},
	"integration/clients":       {"integration/harness"},
	"integration/engines":       {"integration/caller", "integration/harness", "integration/victim/expect"},
	"integration/policy":        {"integration/harness", "integration/victim/expect"},
	"integration/hardlimits":    {"integration/harness"},
	"integration/k8s":           {"integration/harness"},
	"integration/victim":        {},
	"integration/victim/expect": {"integration/harness"},
	"integration/cli":           {"integration/harness"},
	"integration/runcsuite":     {"integration/harness"},
	"integration/bench":         {"integration/harness"},
	"integration/demo":          {},
	"integration/requirements":  {"integration/harness"},
	"integration/vm":            {"integration/vm/guest", "integration/vm/plan"},
	"integration/vm/guest":      {"integration/vm/plan"},
	"integration/vm/plan":       {},
	"integration/vm/guesttest":  {"integration/harness", "integration/vm/plan"},
}

// allowed is design.md section 8 as a table: for every package that there is
// or will be, the packages of the module that it may import. An edge added
// here is a design change; say why in the commit.
var allowed = func() map[string][]string {
	runtime := slices.Sorted(maps.Keys(parts))
	// It reads back what it made, and writes down what became of it.
	runtime = append(runtime, "internal/doctor", "internal/audit", "internal/sampler")
	table := map[string][]string{"internal/runtime": runtime}
	maps.Copy(table, parts)
	maps.Copy(table, wholes)
	return table
}()

// pure packages decide and never act: they get values, an fs.FS or a reader.
// The runner of darwin-seatbelt is built on a Mac only and not seen here.
var pure = []string{
	"internal/errcode", "egress", "egress/clienthello", "quota", "quota/readback",
	"spec", "hardening", "hardening/seccomp", "darwin-seatbelt",
}

// impure lists what reaches the machine. A name stands for the packages below
// it too, but for those of values.
var (
	impure = []string{"os", "net", "syscall", "unsafe", "C", "plugin", "log/syslog", "golang.org/x/sys"}
	values = []string{"net/netip", "net/url", "net/textproto"}
)

// owner says who may import a dependency that carries risk, and which of its
// packages a guest may import besides.
type owner struct {
	dep    string
	owners []string
	guests map[string][]string
}

const libcontainer = "github.com/opencontainers/runc/libcontainer"

var owners = []owner{
	// The guest is the hook by which a re-executed sage-runtime becomes a
	// container's init: it must run before main does, so it lies beside main.
	{
		dep: "github.com/opencontainers/runc", owners: []string{"internal/runtime"},
		guests: map[string][]string{"cmd/sage-runtime": {libcontainer, libcontainer + "/nsenter"}},
	},
	{dep: "github.com/containerd/containerd", owners: []string{"internal/shim"}},
	{dep: "github.com/urfave/cli", owners: []string{"internal/cli"}},
	{dep: "unsafe", owners: []string{"internal/sys"}},
}

// unlinked says what must not be in a binary, by whatever path of imports: the
// shim executes sage-runtime instead of being one, and what touches the
// internet stays small.
var unlinked = map[string][]string{
	"cmd/sage-runtime":            {"github.com/containerd/containerd", "testing"},
	"cmd/containerd-shim-sage-v2": {libcontainer, "testing"},
	"cmd/sage-egress":             {libcontainer, "github.com/containerd/containerd", "testing"},
}

// within tells whether pkg is dep or lies below it.
func within(pkg, dep string) bool {
	return pkg == dep || len(pkg) > len(dep) && pkg[:len(dep)] == dep && pkg[len(dep)] == '/'
}

func withinAny(pkg string, deps []string) bool {
	return slices.ContainsFunc(deps, func(dep string) bool { return within(pkg, dep) })
}
