package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sage-sandbox/sage/spec"
)

// Difference is one field of a posture in which the kernel falls short of what
// is wanted.
type Difference struct {
	Field string `json:"field"` // as in the posture's JSON
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// String is for messages: "no_new_privs is false, want true".
func (d Difference) String() string { return fmt.Sprintf("%s is %s, want %s", d.Field, d.Got, d.Want) }

// Compare lists where got, as the kernel shows it, is not want. Exact is for a
// process that has not begun its program: it must be as sage made it. A running
// program may change for itself whatever the kernel lets it: drop capabilities,
// raise them within its permitted set, lower limits, stack filters, and change
// its ids if it was given the capability for that.
func Compare(want, got spec.Posture, exact bool) []Difference {
	var found []Difference
	for _, l := range Lines(want, got, exact) {
		if !l.OK {
			found = append(found, l.Difference)
		}
	}
	return found
}

// Line is one field that was compared, whether it differs or not.
type Line struct {
	Difference

	OK bool `json:"ok"`
}

// Lines is [Compare] with the fields that are as wanted too.
func Lines(want, got spec.Posture, exact bool) []Line {
	c := comparison{exact: exact}
	c.seccomp(want, got)
	c.capabilities(want, got)
	c.identity(want, got)
	c.add("own_namespaces", slices.Equal(want.OwnNamespaces, got.OwnNamespaces), want.OwnNamespaces, got.OwnNamespaces)
	c.rlimits(want.Rlimits, got.Rlimits)
	c.add("oom_score_adj", got.OOMScoreAdj >= want.OOMScoreAdj, fmt.Sprintf("at least %d", want.OOMScoreAdj), got.OOMScoreAdj)
	// Without a profile wanted, one that the host gave makes nothing looser.
	c.add("apparmor", want.AppArmor == "" || got.AppArmor == want.AppArmor || got.AppArmor == appArmorUnshown, quoted(want.AppArmor), quoted(got.AppArmor))
	return c.lines
}

// comparison gathers lines in the order of the posture's fields.
type comparison struct {
	exact bool
	lines []Line
}

func (c *comparison) add(field string, ok bool, want, got any) {
	c.lines = append(c.lines, Line{Difference{Field: field, Want: fmt.Sprint(want), Got: fmt.Sprint(got)}, ok})
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

func (c *comparison) seccomp(want, got spec.Posture) {
	// Not even a posture that wants it unset gets that: without it, a program
	// with a set-user-ID bit would be more than its container.
	c.add("no_new_privs", got.NoNewPrivs, true, got.NoNewPrivs)
	c.add("seccomp", got.Seccomp == want.Seccomp, want.Seccomp, got.Seccomp)
	// A program may stack filters, which can only deny more; before it begins,
	// one more would be somebody else's.
	if c.exact {
		c.add("seccomp_filters", got.Filters == want.Filters, want.Filters, got.Filters)
	} else {
		c.add("seccomp_filters", got.Filters >= want.Filters, fmt.Sprintf("at least %d", want.Filters), got.Filters)
	}
	c.add("layer2_sha256", got.Layer2 == want.Layer2, quoted(want.Layer2), quoted(got.Layer2))
}

// capabilities follows capabilities(7): with no_new_privs no execve(2) adds to
// the permitted set, from which a thread may take over into the other sets.
func (c *comparison) capabilities(want, got spec.Posture) {
	inheritable := union(want.Inheritable, want.Permitted)
	c.capSet("cap_bounding", want.Bounding, want.Bounding, got.Bounding)
	c.capSet("cap_effective", want.Effective, want.Permitted, got.Effective)
	c.capSet("cap_permitted", want.Permitted, want.Permitted, got.Permitted)
	c.capSet("cap_inheritable", want.Inheritable, inheritable, got.Inheritable)
	c.capSet("cap_ambient", want.Ambient, want.Permitted, got.Ambient)
}

// capSet compares one set with what it was made, or with the most that a
// running program can have made of it.
func (c *comparison) capSet(field string, made, most, got []string) {
	if c.exact {
		c.add(field, slices.Equal(made, got), made, got)
		return
	}
	beyond := slices.DeleteFunc(slices.Clone(got), func(name string) bool { return slices.Contains(most, name) })
	c.add(field, len(beyond) == 0, fmt.Sprintf("at most %v", most), got)
}

// identity: without the capability no program has another user than it began
// with, and no_new_privs keeps it from getting one by executing a file.
func (c *comparison) identity(want, got spec.Posture) {
	anyUser := !c.exact && slices.Contains(want.Permitted, "CAP_SETUID")
	anyGroup := !c.exact && slices.Contains(want.Permitted, "CAP_SETGID")
	c.add("uid", anyUser || got.UID == want.UID, want.UID, got.UID)
	c.add("gid", anyGroup || got.GID == want.GID, want.GID, got.GID)
	c.add("groups", anyGroup || slices.Equal(want.Groups, got.Groups), want.Groups, got.Groups)
}

// rlimits compares those that are wanted, the others being the host's.
func (c *comparison) rlimits(want, got map[string]spec.Rlimit) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		g, ok := got[name]
		field := "rlimits." + name
		switch {
		case !ok:
			c.add(field, false, rlimit(w), "missing")
		case c.exact:
			c.add(field, g == w, rlimit(w), rlimit(g))
		default: // the soft limit moves freely below the hard one, which only falls
			c.add(field, g.Hard <= w.Hard && g.Soft <= w.Hard, "at most "+rlimit(spec.Rlimit{Soft: w.Hard, Hard: w.Hard}), rlimit(g))
		}
	}
}

func rlimit(l spec.Rlimit) string { return limitValue(l.Soft) + "/" + limitValue(l.Hard) }

func limitValue(n uint64) string {
	if n == unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
