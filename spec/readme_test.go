package spec

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// table gives the rows of the README's table whose header begins with first,
// its cells without backticks.
func table(t *testing.T, first string) [][]string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n| "+first+" |")
	if !found {
		t.Fatalf("README.md has no table with the header %q", first)
	}
	var rows [][]string
	for line := range strings.Lines("| " + first + " |" + after) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "`", ""))
		}
		rows = append(rows, cells)
	}
	return append(rows[:1], rows[2:]...)
}

func column(rows [][]string, i int) []string {
	var out []string
	for _, row := range rows[1:] {
		if row[i] != "" {
			out = append(out, row[i])
		}
	}
	return out
}

func TestReadmeKeys(t *testing.T) {
	got := column(table(t, "key of the file"), 0)
	slices.Sort(got)
	want := slices.Sorted(maps.Keys((&hostFile{Host: &Host{}}).keys()))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys of the file (-code +README):\n%s", diff)
	}
}

func TestReadmeSettings(t *testing.T) {
	rows := table(t, "below `defaults`")
	want := [][]string{{"below defaults", "below limits", "annotation"}}
	for _, s := range settings {
		row := []string{"", "", ""}
		if s.in&inDefaults != 0 {
			row[0] = s.key
		}
		if row[1] = s.ceilingKey(); row[1] == s.key && row[0] != "" {
			row[1] = "the same"
		}
		if s.in&inAnnotations != 0 {
			row[2] = map[rule]string{
				atMost: "up to the ceiling", turnOn: "to true", turnOff: "to false", oneOf: "one of the ceiling's, or none",
				rank: "the ceiling's or stricter", subset: "a part of the ceiling's", within: "covered by the ceiling's", added: "more",
				unchanged: "the default's only",
			}[s.rule]
			if s.rule == oneOf && s.key != keyMode {
				row[2] = "one of the ceiling's"
			}
		}
		want = append(want, row)
	}
	for i := range rows {
		rows[i] = rows[i][:3]
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("keys of a profile (-code +README):\n%s", diff)
	}
}

// TestReadmeProfiles holds the built-in profiles to the numbers that people
// read, and so to those that were agreed on.
//
// Proves: S-003, S-023, S-060, S-071, S-074, A-003, A-007, A-009, A-021, A-022, E-027, C-02, C-04, G-11.
func TestReadmeProfiles(t *testing.T) {
	names := []string{"sage", "agent", "service", "superagent", "electric"}
	want := [][]string{append([]string{"value"}, names...)}
	for _, s := range settingsIn(inDefaults) {
		row := []string{s.key}
		for _, name := range names {
			row = append(row, valueText(BuiltinHost().Profiles[name], s))
		}
		if slices.Compact(slices.Clone(row[1:]))[0] != "" {
			want = append(want, row)
		}
	}
	if diff := cmp.Diff(want, table(t, "value")); diff != "" {
		t.Errorf("built-in profiles (-code +README):\n%s", diff)
	}
}

// valueText is the default, and the ceiling behind it where it has its own.
func valueText(p *Profile, s setting) string {
	v, ok := p.defaults[s.key]
	if !ok {
		return ""
	}
	text := s.text(v)
	if s.form == formWord && v.s == "" {
		text = "none"
	}
	text = strings.ReplaceAll(text, "CAP_", "")
	if _, limited := p.limits[s.ceilingKey()]; limited {
		text += " (" + p.ceilingText(s) + ")"
	}
	return text
}

// TestBuiltinProfiles: what the file's reader would refuse is not built in.
func TestBuiltinProfiles(t *testing.T) {
	h := BuiltinHost()
	for _, name := range h.ProfileNames() {
		p := h.Profiles[name]
		if p.Compat {
			continue
		}
		if err := p.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range settingsIn(inDefaults) {
			_, set := p.defaults[s.key]
			open := slices.Contains([]string{keyEnv, keyForceEnv, keyFileSize, keyPrivileged, keyProxy}, s.key)
			if set == open {
				t.Errorf("%s: %s is set: %v, want %v", name, s.key, set, !open)
			}
		}
	}
	if diff := cmp.Diff([]string{"agent", "electric", "sage", "service", "superagent"}, h.AllowedProfiles); diff != "" {
		t.Errorf("profiles for bundles (-want +got):\n%s", diff)
	}
}

// TestCapabilities: every capability of Linux is in one of the two lists.
func TestCapabilities(t *testing.T) {
	both := append(slices.Clone(grantable), forbidden...)
	slices.Sort(both)
	if len(slices.Compact(slices.Clone(both))) != 41 || len(both) != 41 {
		t.Errorf("got %d capabilities, want the 41 of Linux, each once", len(both))
	}
	for _, name := range grantable {
		for _, word := range []string{"SYS_", "NET_ADMIN", "NET_RAW", "BPF", "PERFMON", "MKNOD", "DAC_READ_SEARCH", "SETPCAP", "SYSLOG", "CHECKPOINT", "MAC_", "AUDIT_CONTROL", "IMMUTABLE", "BLOCK_SUSPEND", "WAKE_ALARM"} {
			if strings.HasPrefix(name, "CAP_"+word) || strings.HasSuffix(name, word) {
				t.Errorf("%s can be granted, and rules.md says never", name)
			}
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"mode", "moed", 2}, {strings.Repeat("x", 99), "", 64}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q): got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
