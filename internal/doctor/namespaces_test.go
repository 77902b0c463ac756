package doctor

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// links makes a directory of /proc whose namespaces all have one number, but
// for those given otherwise.
func links(number string, but map[string]string) fstest.MapFS {
	dir := fstest.MapFS{}
	for _, kind := range namespaceKinds {
		text := kind + ":[" + number + "]"
		if other, ok := but[kind]; ok {
			text = other
		}
		dir["ns/"+kind] = &fstest.MapFile{Data: []byte(text), Mode: fs.ModeSymlink}
	}
	return dir
}

// among is what [readFiles] does: the others' first, then of's against them.
func among(of fs.FS, others ...fs.FS) ([]string, error) {
	var sets []namespaceSet
	for _, other := range others {
		set, err := readNamespaces(other)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return ownNamespaces(of, sets...)
}

func TestOwnNamespaces(t *testing.T) {
	host, caller := links("1", nil), links("2", map[string]string{"user": "user:[1]"})
	tests := []struct {
		name string
		of   fs.FS
		want []string
	}{
		{"the host's", host, []string{}},
		{"the caller's", caller, []string{}},
		{"all its own", links("3", nil), namespaceKinds},
		{"network of the host", links("3", map[string]string{"net": "net:[1]"}), []string{"cgroup", "ipc", "mnt", "pid", "user", "uts"}},
		{"one of each", links("3", map[string]string{"ipc": "ipc:[2]", "user": "user:[1]"}), []string{"cgroup", "mnt", "net", "pid", "uts"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := among(tt.of, host, caller)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("own namespaces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnNamespacesRefuses(t *testing.T) {
	good, without := links("1", nil), links("1", nil)
	delete(without, "ns/cgroup")
	for name, tt := range map[string]struct {
		of, other fs.FS
		want      string
	}{
		"kernel without one": {without, good, "own_namespaces: readlink"},
		"host without one":   {good, without, "own_namespaces: readlink"},
		"not of its kind":    {links("1", map[string]string{"net": "mnt:[1]"}), good, `own_namespaces: ns/net reads "mnt:[1]"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := among(tt.of, tt.other)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", got, err, tt.want)
			}
		})
	}
}

// forbidding is a directory in which nobody may follow the links.
type forbidding struct{ fstest.MapFS }

func (forbidding) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrPermission}
}

// proc is /proc with two processes, of which one may be forbidden.
type proc map[string]fs.FS

func (proc) Open(string) (fs.File, error) { return nil, fs.ErrInvalid }

func (p proc) Sub(dir string) (fs.FS, error) {
	if sub, ok := p[dir]; ok {
		return sub, nil
	}
	return nil, fs.ErrNotExist
}

func TestHostProcess(t *testing.T) {
	kthreadd := links("1", nil)
	kthreadd["stat"] = &fstest.MapFile{Data: []byte(testdata(t, "stat-kthreadd-6.18"))}
	ordinary := links("1", nil)
	ordinary["stat"] = &fstest.MapFile{Data: []byte(testdata(t, "stat-sleep-6.18"))}
	first := links("9", nil)
	tests := []struct {
		name string
		proc proc
		want fs.FS // nil: refused
	}{
		{"pid 1 is seen", proc{"1": first, "2": kthreadd}, first},
		{"pid 1 is hidden", proc{"1": forbidding{first}, "2": kthreadd}, kthreadd},
		{"nobody is the kernel's", proc{"1": forbidding{first}, "2": ordinary}, nil},
		{"alone and hidden", proc{"1": forbidding{first}}, nil},
		{"no namespaces", proc{"1": fstest.MapFS{}, "2": kthreadd}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hostProcess(tt.proc)
			if tt.want == nil {
				if err == nil {
					t.Errorf("got %v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("process of the host (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOOMScoreAdj(t *testing.T) {
	for text, want := range map[string]int{"0\n": 0, "-1000\n": -1000, "1000\n": 1000} {
		dir := fstest.MapFS{"oom_score_adj": {Data: []byte(text)}}
		if got, err := readOOMScoreAdj(dir); got != want || err != nil {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for name, dir := range map[string]fstest.MapFS{"missing": {}, "empty": {"oom_score_adj": {}}} {
		if got, err := readOOMScoreAdj(dir); err == nil || !strings.Contains(err.Error(), "oom_score_adj") {
			t.Errorf("%s: got %d, %v; want an error that names it", name, got, err)
		}
	}
}
