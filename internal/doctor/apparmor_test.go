package doctor

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// labels is a directory of /proc with the files given, of which reading one
// that is empty fails, as it does where nothing is to change.
type labels map[string]string

func (l labels) Open(name string) (fs.File, error) {
	text, ok := l[name]
	if ok && text == "" {
		return nil, &fs.PathError{Op: "read", Path: name, Err: unix.EINVAL}
	}
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
}

func TestReadAppArmor(t *testing.T) {
	on := fstest.MapFS{"apparmor/parameters/enabled": {Data: []byte("Y\n")}}
	off := fstest.MapFS{"apparmor/parameters/enabled": {Data: []byte("N\n")}}
	tests := []struct {
		name      string
		dir       labels
		modules   fstest.MapFS
		now, next string
		fails     bool
	}{
		{"not built in", labels{}, fstest.MapFS{}, "", "", false},
		{"off", labels{"attr/current": "unconfined\n"}, off, "", "", false},
		{
			"unconfined",
			labels{"attr/apparmor/current": "unconfined\n", "attr/apparmor/exec": ""},
			on, "unconfined", "unconfined", false,
		},
		{
			"enforced",
			labels{"attr/apparmor/current": "docker-default (enforce)\n", "attr/apparmor/exec": "\n"},
			on, "docker-default", "docker-default", false,
		},
		{
			"complaining",
			labels{"attr/apparmor/current": "a (complain)\n", "attr/apparmor/exec": ""},
			on, "a (complain)", "a (complain)", false,
		},
		{
			"before start",
			labels{"attr/apparmor/current": "unconfined\n", "attr/apparmor/exec": "docker-default (enforce)\n"},
			on, "unconfined", "docker-default", false,
		},
		{
			"before Linux 5.8",
			labels{"attr/current": "a (enforce)\n", "attr/exec": "b (enforce)\n"},
			on, "a", "b", false,
		},
		{
			"beside another module", labels{
				"attr/current": "system_u:system_r:x", "attr/exec": "",
				"attr/apparmor/current": "a (enforce)\n", "attr/apparmor/exec": "",
			}, on, "a", "a", false,
		},
		{"not shown", labels{}, on, "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for which, want := range map[attribute]string{appArmorNow: tt.now, appArmorNext: tt.next} {
				got, err := readAppArmor(tt.dir, tt.modules, which)
				if got != want || (err != nil) != tt.fails {
					t.Errorf("%s: got %q, %v; want %q, failure %t", which, got, err, want, tt.fails)
				}
			}
		})
	}
}
