package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sage-sandbox/sage/internal/sys"
)

// mountPoint is one line of proc_pid_mountinfo(5), as much of it as is judged.
type mountPoint struct {
	path    string // seen from the root directory of whoever's file it is
	root    string // of the mount within its file system
	options []string
	fstype  string
	super   string // options of the file system itself
}

func (m mountPoint) has(option string) bool { return slices.Contains(m.options, option) }

func readMounts(file string) ([]mountPoint, error) {
	data, err := sys.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseMounts(string(data))
}

// parseMounts fails on a line that it cannot read: a mount that is not seen
// would not be judged.
func parseMounts(text string) ([]mountPoint, error) {
	out := []mountPoint{}
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(head) < 6 || len(tail) < 1 {
			return nil, fmt.Errorf("mountinfo: cannot read the line %.80q", line)
		}
		out = append(out, mountPoint{
			root: unmangle(head[3]), path: unmangle(head[4]),
			options: strings.Split(head[5], ","), fstype: tail[0], super: tail[len(tail)-1],
		})
	}
	return out, nil
}

// unmangle leaves alone what nearly all paths are.
func unmangle(path string) string {
	if strings.IndexByte(path, '\\') < 0 {
		return path
	}
	return unescape.Replace(path)
}

// unescape undoes what the kernel does to the four characters that would
// break a line up; see mangle_path in fs/seq_file.c.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
