package expect

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range slices.Concat(Rows(), x86) {
		if seen[row.Attempt] && !slices.Contains(x86, row) {
			t.Errorf("%s: has two rows", row.Attempt)
		}
		seen[row.Attempt] = true
		for _, p := range []Profile{Unconfined, Sage, Agent, Service} {
			if row.Want(p) == "" {
				t.Errorf("%s: nothing is wanted under %s", row.Attempt, p)
			}
		}
		if p := proves(row); !p && WhySame(row.Attempt) == "" {
			t.Errorf("%s: comes to %s everywhere, so it proves nothing", row.Attempt, row.Sage)
		}
	}
}

// proves tells whether a policy makes a difference somewhere.
func proves(row Row) bool {
	return row.Sage != row.Unconfined || row.Agent != row.Unconfined || row.Service != row.Unconfined
}

// TestJudge: a wrong, a missing, a doubled and an unknown outcome are problems.
func TestJudge(t *testing.T) {
	trial := Trial{Profile: Sage, Contexts: []string{"init"}, Instead: map[string]string{"chroot": "ok|ENOSYS"}}
	var fine []Outcome
	for _, row := range Rows() {
		fine = append(fine, Outcome{row.Attempt, "amd64", "init", strings.Split(row.Sage, "|")[0]})
	}
	i := slices.IndexFunc(fine, func(o Outcome) bool { return o.Attempt == "chroot" })
	fine[i].Result = "ok"
	wrong := slices.Clone(fine)
	wrong[i].Result = "EPERM"
	for _, c := range []struct {
		name     string
		outcomes []Outcome
		want     []string
	}{
		{"fine", fine, nil},
		{"wrong", wrong, []string{"chroot as init: got EPERM, want ok|ENOSYS"}},
		{"missing", slices.Delete(slices.Clone(fine), i, i+1), []string{"chroot as init: was not tried, want ok|ENOSYS"}},
		{"twice", append(slices.Clone(fine), fine[i]), []string{"chroot as init: more than one outcome"}},
		{
			"unknown", append(slices.Clone(fine), Outcome{"fly", "amd64", "init", "ok"}),
			[]string{"fly as init: got ok, but the table has no such row"},
		},
		{
			"other context", append(slices.Clone(fine), Outcome{"fly", "amd64", "exec", "ok"}),
			[]string{"fly as exec: got ok, but the table has no such row"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := trial.Judge(c.outcomes)
			if diff := cmp.Diff(c.want, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEscapes: another denial is one, a success is none.
func TestEscapes(t *testing.T) {
	trial := Trial{Profile: Sage, Contexts: []string{"init"}}
	var fine []Outcome
	for _, row := range Rows() {
		fine = append(fine, Outcome{row.Attempt, "amd64", "init", "EACCES"})
	}
	through := slices.Clone(fine)
	through[0].Result = "ok"
	for _, c := range []struct {
		name     string
		outcomes []Outcome
		want     int
	}{
		{"another denial", fine, 0},
		{"come through", through, 1},
		{"not tried", fine[1:], 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if problems := trial.Escapes(c.outcomes); len(problems) != c.want {
				t.Errorf("got %q, want %d", problems, c.want)
			}
		})
	}
}

func TestJudgeI386(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      Profile
		result string
		want   int
	}{
		{"killed", Sage, "SIGSYS", 0},
		{"let through", Sage, "ok", 1},
		{"killed by nobody", Unconfined, "SIGSYS", 1},
		{"unconfined", Unconfined, "ok", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			problems := JudgeI386(c.p, []Outcome{{"mount", "386", "init", c.result}})
			if len(problems) != c.want {
				t.Errorf("got %q, want %d problems", problems, c.want)
			}
		})
	}
	if problems := JudgeI386(Sage, nil); len(problems) != 1 {
		t.Errorf("got %q, want that nothing was tried", problems)
	}
}

// TestParse: a report that is cut off or has other fields is none.
func TestParse(t *testing.T) {
	const line = `{"attempt":"mount","abi":"amd64","context":"init","result":"EPERM"}` + "\n"
	for _, c := range []struct {
		name, report string
		want         int
		ok           bool
	}{
		{"empty", "", 0, true},
		{"two", line + line, 2, true},
		{"cut off", line + line[:20], 0, false},
		{"other field", `{"attempt":"mount","uid":0}`, 0, false},
		{"text", "exec failed", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.report)
			if (err == nil) != c.ok || len(got) != c.want {
				t.Errorf("got %d outcomes and %v, want %d and ok %t", len(got), err, c.want, c.ok)
			}
		})
	}
}
