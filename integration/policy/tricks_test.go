//go:build kernel

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/integration/harness"
)

// trick is something that a bundle asks for and must not get.
type trick struct {
	name string
	edit func(t *testing.T, s *specs.Spec)
	// says are phrases of the refusal. Without any the container may run as well,
	// but then it finds nothing wrong with what it sees; see looker.
	says []string
}

// denied is the reason of most refusals.
const denied = "sandbox.permission_denied"

// marker is a file of the host that no container may find.
const marker = "sage-host-marker"

// looker prints a line for each thing of the host that it can see or steer: a
// kernel file system that is writable (but for /proc itself, of which what
// matters is), the processes of the test, and files of the host.
const looker = `
PATH=/bin:/sbin:/usr/bin:/usr/sbin
while read -r id parent dev root point flags rest; do
	# A single device or mask, as a user namespace has them.
	case $root:$rest in /:*) ;; *" - devtmpfs "*) continue ;; esac
	case $rest in
	*" - proc "* | *" - sysfs "* | *" - cgroup"* | *" - debugfs "* | *" - tracefs "* | *" - securityfs "* | *" - bpf "* | \
	*" - devtmpfs "* | *" - configfs "* | *" - binfmt_misc "* | *" - pstore "* | *" - efivarfs "*)
		case $point:$flags in /proc:rw*) ;; *:rw*) echo "writable: $point $flags $rest" ;; esac ;;
	esac
	case $rest in *" - proc "*)
		grep -l policy.test $point/[0-9]*/cmdline 2>/dev/null | head -n1 | sed 's/^/process of the host: /' ;;
	esac
	case $rest in *" - devtmpfs "*) echo "devices of the host: $point" ;; esac
done </proc/self/mountinfo
find / -name ` + marker + ` -not -path '/proc/*' 2>/dev/null | head -n1 | sed 's/^/file of the host: /'
for f in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger /sys/power/state; do
	(: >>$f) 2>/dev/null && echo "writable: $f"
done
(: >>/proc/irq/default_smp_affinity) 2>/dev/null && echo "writable: /proc/irq"
[ -e /proc/self/status ] || exit 0
grep -q '^Seccomp:	2' /proc/self/status || echo "no filter: $(grep Seccomp /proc/self/status)"
grep -q '^NoNewPrivs:	1' /proc/self/status || echo "privileges can be gained"
exit 0
`

// hostMarker puts the file where every path of the host leads to it that the
// tests offer: in the folder of all tests.
func hostMarker(t *testing.T) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(harness.Scratch(t), marker), []byte("x"), 0o644))
}

// fails runs the trick, under each host file.
func (c trick) fails(t *testing.T, hosts ...string) {
	t.Helper()
	hostMarker(t)
	for _, host := range hosts {
		t.Run(profileOf(host), func(t *testing.T) {
			r := harness.NewRuntimeWith(t, host)
			b := harness.NewBundle(t, func(s *specs.Spec) {
				s.Process.Args = []string{"sh", "-c", looker}
				c.edit(t, s)
			})
			c.judge(t, r, r.Run(t, "run", "--bundle", b.Dir, harness.NewID()))
		})
	}
}

// profileOf names a host file by the profile that it begins with.
func profileOf(host string) string { return strings.Fields(host)[1] }

func (c trick) judge(t *testing.T, r *harness.Runtime, res harness.Result) {
	t.Helper()
	if len(c.says) > 0 || res.Code != 0 {
		t.Logf("exit status %d: %s", res.Code, strings.TrimSpace(said(res)))
		refused(t, r, res, codeOf(res), c.says...)
		return
	}
	t.Logf("ran")
	for line := range strings.Lines(res.Stdout) {
		t.Error(strings.TrimSpace(line))
	}
}

// codeOf: what sage refuses has a code; what libcontainer refuses for reasons of
// its own, when it has begun, carries runc's phrase and none.
func codeOf(res harness.Result) string {
	if strings.Contains(res.Stderr, "error during container init") {
		return ""
	}
	return "sandbox."
}

// failAll is for a table.
func failAll(t *testing.T, tricks []trick, hosts ...string) {
	t.Helper()
	for _, c := range tricks {
		t.Run(c.name, func(t *testing.T) { c.fails(t, hosts...) })
	}
}

// bind is an edit that mounts a path of the host.
func bind(source, destination string, options ...string) func(*testing.T, *specs.Spec) {
	return mounted(specs.Mount{Type: "bind", Source: source, Destination: destination, Options: append([]string{"bind"}, options...)})
}

func mounted(m specs.Mount) func(*testing.T, *specs.Spec) {
	return func(_ *testing.T, s *specs.Spec) { s.Mounts = append(s.Mounts, m) }
}
