package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

func TestParseSize(t *testing.T) {
	tests := map[string]int64{
		"20G": 20 << 30, "20GiB": 20 << 30, "512M": 512 << 20, "314572800": 300 << 20, "1T": 1 << 40, "400000K": 400000 << 10,
		"": 0, "G": 0, "20g": 0, "20GB": 0, "20Gi": 0, "-1G": 0, "1.5G": 0, "20 G": 0, "20GG": 0, "20iB": 20, "0": 0, "299M": 0,
		"9223372036854775807": 1<<63 - 1, "9223372036854775808": 0, "8388608T": 0, "99999999999G": 0,
	}
	for in, want := range tests {
		if want < minSize {
			want = 0
		}
		got, err := ParseSize(in)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: got %d, %v, want %d", in, got, err, want)
		}
	}
}

const someFstab = "# /etc/fstab\nUUID=1 / ext4 defaults 0 1\n/dev/sdb1\t/srv/data xfs prjquota 0 0"

func TestAddLine(t *testing.T) {
	line := fstabLine("/var/lib/sage/quota.img", "/srv/sage-xfs")
	tests := []struct {
		name, text, line string
		want             string // "" is an error
		added            bool
	}{
		{"to nothing", "", line, line + "\n", true},
		{"after a line without an end", someFstab, line, someFstab + "\n" + line + "\n", true},
		{"twice", someFstab + "\n" + line + "\n", line, someFstab + "\n" + line + "\n", false},
		{"other blanks", strings.ReplaceAll(line, " ", "\t"), line, strings.ReplaceAll(line, " ", "\t"), false},
		{"a comment is none", "#" + line + "\n", line, "#" + line + "\n" + line + "\n", true},
		{"another at the same place", someFstab, fstabLine("/x.img", "/srv/data"), "", false},
		{"a blank in the path", "", fstabLine("/a b.img", "/m\tn"), `/a\040b.img /m\011n xfs ` + fstabOptions + " 0 0\n", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, added, err := addLine(tt.text, tt.line)
			if (err != nil) != (tt.want == "") || added != tt.added {
				t.Fatalf("got added %t, %v, want %t", added, err, tt.added)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fstab (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemoveLine: only the very line is taken back.
func TestRemoveLine(t *testing.T) {
	line := fstabLine("/q.img", "/q")
	changed := strings.Replace(line, "nofail", "noauto", 1)
	text := someFstab + "\n" + changed + "\n" + line + "\n# the end\n"
	got, removed := removeLine(text, line)
	if diff := cmp.Diff(someFstab+"\n"+changed+"\n# the end\n", got); diff != "" || !removed {
		t.Errorf("removed %t (-want +got):\n%s", removed, diff)
	}
	if got, removed = removeLine(got, line); removed {
		t.Errorf("removed a line again: %q", got)
	}
}

// FuzzFstab: what was added goes again, and the rest of the file stays as it
// was, but for the end of its last line.
func FuzzFstab(f *testing.F) {
	for _, text := range []string{"", "\n", someFstab, someFstab + "\n\n", "a b\r\n"} {
		f.Add(text, "/q.img", "/q")
	}
	f.Fuzz(func(t *testing.T, text, image, mount string) {
		line := fstabLine(image, mount)
		after, added, err := addLine(text, line)
		if err != nil || !added {
			return
		}
		if _, again, err := addLine(after, line); again || err != nil {
			t.Fatalf("added twice to %q, %v", text, err)
		}
		want := text
		if text != "" && !strings.HasSuffix(text, "\n") {
			want += "\n"
		}
		if got, removed := removeLine(after, line); !removed || got != want {
			t.Fatalf("got %t, %q, want %q", removed, got, want)
		}
	})
}

// TestConfigText: what setup writes is a configuration that lacks nothing.
//
// Proves: S-146.
func TestConfigText(t *testing.T) {
	for _, mount := range []string{"/srv/sage-xfs", "/srv/a: b #c", `/srv/"q"\`, "/srv/ä&<>", "/srv/{x}"} {
		j := &job{Options: Options{Mount: mount, Cgroup: DefaultCgroup, Audit: DefaultAudit}}
		text := configText(j.settings())
		host, err := spec.ParseHost([]byte(text))
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if host.QuotaMount != mount || host.CgroupRoot != DefaultCgroup || host.AuditDir != DefaultAudit || host.ProjectIDs != (spec.IDRange{First: 100000, Last: 199999}) {
			t.Errorf("got %+v of\n%s", host, text)
		}
		if lines := missing(host, j.settings()); lines != nil {
			t.Errorf("%q lacks %q", text, lines)
		}
		if want := len(j.settings()); len(missing(spec.BuiltinHost(), j.settings())) != want {
			t.Errorf("a host without a file does not lack %d lines", want)
		}
	}
}

// TestMissing: a configuration that is somebody's is judged key by key.
func TestMissing(t *testing.T) {
	host, err := spec.ParseHost([]byte("version: 1\nlinux_quota_mount: /other\naudit_dir: /var/log/sage\nquota: {project_ids: 5-6}\n"))
	if err != nil {
		t.Fatal(err)
	}
	j := &job{Options: Options{Mount: "/m", Cgroup: DefaultCgroup, Audit: DefaultAudit}}
	want := []string{"linux_quota_mount: /m", "linux_cgroup_root: " + DefaultCgroup}
	if diff := cmp.Diff(want, missing(host, j.settings())); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestFindMount(t *testing.T) {
	const table = `22 27 0:21 / /proc rw - proc proc rw
30 27 7:0 / /srv/a\040b\134c rw,nosuid shared:1 master:2 - xfs /dev/loop0 rw,prjquota
31 27 0:30 / /srv/m rw - tmpfs tmpfs rw
32 31 7:1 / /srv/m rw - xfs /dev/loop1 rw
cut off
`
	tests := map[string]*mountPoint{
		`/srv/a b\c`: {"7:0", `/srv/a b\c`, "xfs"},
		"/srv/m":     {"7:1", "/srv/m", "xfs"}, // the one that covers the other
		"/srv":       nil,
	}
	for path, want := range tests {
		if diff := cmp.Diff(want, findMount(table, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestRecord: what one setup writes the next one reads, whole, and none of it
// is left when nothing is.
func TestRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a record belongs to root")
	}
	path := filepath.Join(t.TempDir(), "setup.json")
	r, err := loadRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	r.crash = func(string) {}
	items := []item{{Kind: kindDirectory, Path: "/a", Done: true}, {Kind: kindImage, Path: "/a/b", Ino: 7}, {Kind: kindDirectory, Path: "/a", Text: "again"}}
	for _, it := range items {
		if err := r.begin(it); err != nil {
			t.Fatal(err)
		}
	}
	again, err := loadRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(items[1:], again.Items, cmp.AllowUnexported(item{})); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	for range 2 {
		if err := r.drop(); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
	for name, text := range map[string]string{"cut": `{"version":1,"items":[`, "other": `{"version":2}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadRecord(path); errcode.Of(err) != errcode.StateInvalid {
			t.Errorf("%s: got %v, want %s", name, err, errcode.StateInvalid)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := loadRecord(path); err == nil || !strings.Contains(err.Error(), "writable by nobody else") {
		t.Errorf("a record that anybody can write: got %v", err)
	}
}
