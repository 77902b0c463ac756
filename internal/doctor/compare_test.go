package doctor

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/spec"
)

// wanted is a posture with a value in every field.
func wanted() spec.Posture {
	return spec.Posture{
		NoNewPrivs: true, Seccomp: 2, Filters: 2, Layer2: "aa",
		Bounding: []string{"CAP_CHOWN", "CAP_KILL"}, Effective: []string{"CAP_CHOWN"}, Permitted: []string{"CAP_CHOWN", "CAP_KILL"},
		Inheritable: []string{}, Ambient: []string{},
		UID: 1001, GID: 1001, Groups: []uint32{5}, OwnNamespaces: []string{"mnt", "net"},
		Rlimits:     map[string]spec.Rlimit{"RLIMIT_NOFILE": {Soft: 100, Hard: 200}},
		OOMScoreAdj: 500, AppArmor: "profile",
	}
}

func TestCompareSame(t *testing.T) {
	got := wanted()
	got.Rlimits["RLIMIT_CPU"] = spec.Rlimit{Soft: 1, Hard: 1} // nothing is said of it
	for _, exact := range []bool{true, false} {
		if diff := Compare(wanted(), got, exact); diff != nil {
			t.Errorf("exact %t: got %v, want no difference", exact, diff)
		}
	}
}

// TestCompareEveryField changes each field of a posture in turn, for the worse,
// so that a field that is added and not compared fails here.
func TestCompareEveryField(t *testing.T) {
	kind := reflect.TypeFor[spec.Posture]()
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		t.Run(name, func(t *testing.T) {
			for _, exact := range []bool{true, false} {
				got := wanted()
				worsen(t, reflect.ValueOf(&got).Elem().Field(i))
				diff := Compare(wanted(), got, exact)
				if len(diff) != 1 || !strings.HasPrefix(diff[0].Field, name) {
					t.Errorf("exact %t: got %v, want one difference, in %s", exact, diff, name)
				}
			}
		})
	}
}

func worsen(t *testing.T, field reflect.Value) {
	t.Helper()
	switch value := field.Addr().Interface().(type) {
	case *bool:
		*value = !*value
	case *int:
		*value--
	case *uint32:
		*value = 0
	case *string:
		*value = "other"
	case *[]string:
		*value = append(*value, "other")
	case *[]uint32:
		*value = append(*value, 0)
	case *map[string]spec.Rlimit:
		*value = map[string]spec.Rlimit{"RLIMIT_NOFILE": {Soft: 100, Hard: 201}}
	default:
		t.Fatalf("a posture has a field of type %T: say here how it gets worse", value)
	}
}

// compareTests change one thing each; the kernel's rules for what a program may
// do to itself are in the third column.
var compareTests = []struct {
	name           string
	change         func(want, got *spec.Posture)
	exact, running []string // the fields that differ
}{
	{
		"a filter more", func(_, got *spec.Posture) { got.Filters++ },
		[]string{"seccomp_filters"},
		nil,
	},
	{
		"capabilities dropped", func(_, got *spec.Posture) { got.Bounding, got.Permitted, got.Effective = nil, nil, nil },
		[]string{"cap_bounding", "cap_effective", "cap_permitted"},
		nil,
	},
	{
		"raised within permitted", func(_, got *spec.Posture) {
			got.Effective, got.Inheritable, got.Ambient = got.Permitted, []string{"CAP_KILL"}, []string{"CAP_KILL"}
		},
		[]string{"cap_effective", "cap_inheritable", "cap_ambient"},
		nil,
	},
	{
		"permitted beyond, within bounding", func(want, _ *spec.Posture) { want.Permitted = []string{"CAP_CHOWN"} },
		[]string{"cap_permitted"},
		[]string{"cap_permitted"},
	},
	{
		"no_new_privs unset and not wanted", func(want, got *spec.Posture) { want.NoNewPrivs, got.NoNewPrivs = false, false },
		[]string{"no_new_privs"},
		[]string{"no_new_privs"},
	},
	{
		"other user with CAP_SETUID", func(want, got *spec.Posture) {
			want.Permitted, want.Bounding = []string{"CAP_SETUID"}, []string{"CAP_SETUID"}
			got.UID, got.Permitted, got.Effective, got.Bounding = 7, nil, nil, nil
		},
		[]string{"cap_bounding", "cap_effective", "cap_permitted", "uid"},
		nil,
	},
	{
		"other groups with CAP_SETGID", func(want, got *spec.Posture) {
			want.Permitted, got.Permitted, got.Effective = []string{"CAP_CHOWN", "CAP_SETGID"}, nil, nil
			got.GID, got.Groups = 7, nil
		},
		[]string{"cap_effective", "cap_permitted", "gid", "groups"},
		nil,
	},
	{
		"other user without", func(_, got *spec.Posture) { got.UID, got.GID, got.Groups = 7, 7, nil },
		[]string{"uid", "gid", "groups"},
		[]string{"uid", "gid", "groups"},
	},
	{
		"limits lowered", func(_, got *spec.Posture) { got.Rlimits["RLIMIT_NOFILE"] = spec.Rlimit{Soft: 10, Hard: 20} },
		[]string{"rlimits.RLIMIT_NOFILE"},
		nil,
	},
	{
		"soft limit raised to the hard one", func(_, got *spec.Posture) { got.Rlimits["RLIMIT_NOFILE"] = spec.Rlimit{Soft: 200, Hard: 200} },
		[]string{"rlimits.RLIMIT_NOFILE"},
		nil,
	},
	{
		"limit not reported", func(_, got *spec.Posture) { got.Rlimits = nil },
		[]string{"rlimits.RLIMIT_NOFILE"},
		[]string{"rlimits.RLIMIT_NOFILE"},
	},
	{"killed sooner", func(_, got *spec.Posture) { got.OOMScoreAdj = 1000 }, nil, nil},
	{"profile of the host", func(want, _ *spec.Posture) { want.AppArmor = "" }, nil, nil},
	{
		"profile that only complains", func(_, got *spec.Posture) { got.AppArmor = "profile (complain)" },
		[]string{"apparmor"},
		[]string{"apparmor"},
	},
	{
		"namespace of the host", func(_, got *spec.Posture) { got.OwnNamespaces = []string{"mnt"} },
		[]string{"own_namespaces"},
		[]string{"own_namespaces"},
	},
}

func TestCompare(t *testing.T) {
	for _, tt := range compareTests {
		t.Run(tt.name, func(t *testing.T) {
			want, got := wanted(), wanted()
			tt.change(&want, &got)
			if diff := cmp.Diff(tt.exact, fields(Compare(want, got, true))); diff != "" {
				t.Errorf("exact: fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.running, fields(Compare(want, got, false))); diff != "" {
				t.Errorf("running: fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLines: whoever is shown everything sees each field once, also those that
// are as wanted.
func TestLines(t *testing.T) {
	got := wanted()
	got.UID = 0
	shown := map[string]bool{}
	for _, l := range Lines(wanted(), got, true) {
		if _, twice := shown[l.Field]; twice {
			t.Errorf("%s is there twice", l.Field)
		}
		shown[l.Field] = l.OK
		if l.OK != (l.Field != "uid") {
			t.Errorf("%s: ok is %t (got %s, want %s)", l.Field, l.OK, l.Got, l.Want)
		}
	}
	if got, want := len(shown), reflect.TypeFor[spec.Posture]().NumField(); got != want {
		t.Errorf("%d lines, want one for each of %d fields", got, want)
	}
}

func fields(differences []Difference) []string {
	var names []string
	for _, d := range differences {
		names = append(names, d.Field)
	}
	return names
}

func TestDifferenceString(t *testing.T) {
	want := wanted()
	got := wanted()
	got.Rlimits = map[string]spec.Rlimit{"RLIMIT_NOFILE": {Soft: unlimited, Hard: unlimited}}
	got.Filters, got.Layer2 = 1, ""
	var lines []string
	for _, d := range Compare(want, got, false) {
		lines = append(lines, d.String())
	}
	wantLines := []string{
		"seccomp_filters is 1, want at least 2",
		`layer2_sha256 is "", want "aa"`,
		"rlimits.RLIMIT_NOFILE is unlimited/unlimited, want at most 200/200",
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
