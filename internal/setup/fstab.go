package setup

import (
	"fmt"
	"slices"
	"strings"
)

// fstabMark is an option for no program, as mount(8) has it: what begins with
// X- is a comment. It stays with the line wherever an administrator moves it.
const fstabMark = "X-sage.setup"

// fstabOptions: without nofail a host whose image is gone does not boot; but
// nofail alone lets engines start before the mount is there, and put their
// files beneath it, hence the order. fstrim(8) would give the image's space
// back to the file system below, which may then not have it any more.
const fstabOptions = "loop,prjquota,nosuid,nodev,nofail,x-systemd.before=local-fs.target,X-fstrim.notrim," + fstabMark

// fstabLine has the image mounted at each boot.
func fstabLine(image, mount string) string {
	return fmt.Sprintf("%s %s xfs %s 0 0", escape(image), escape(mount), fstabOptions)
}

// escape writes what separates fields as fstab(5) says.
func escape(path string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
}

// addLine returns the text with line at its end; added is false if it is there
// already. Another line for the same mount point is refused: of two, boot would
// mount one over the other.
func addLine(text, line string) (out string, added bool, err error) {
	want := fields(line)
	for n, have := range slices.All(strings.Split(text, "\n")) {
		has := fields(have)
		switch {
		case slices.Equal(has, want):
			return text, false, nil
		case len(has) > 1 && !strings.HasPrefix(has[0], "#") && has[1] == want[1]:
			return "", false, fmt.Errorf("line %d: saw another mount at %s, want none; remove it, or name another --mount", n+1, has[1])
		}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n", true, nil
}

// fields are separated by blanks and tabs alone: other spaces belong to paths.
func fields(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
}

// removeLine is its undo. A line that was changed since is not ours to remove.
func removeLine(text, line string) (out string, removed bool) {
	lines := strings.SplitAfter(text, "\n")
	kept := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.TrimSuffix(l, "\n") == line })
	return strings.Join(kept, ""), len(kept) < len(lines)
}
