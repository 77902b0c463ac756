package hardening

import (
	"slices"
	"strconv"
	"strings"
)

// options are those of a mount, by what they mean to the rules. What weakens a
// mount has no place here and so is gone from the list: suid, dev, rw, their
// recursive forms, symfollow, and propagation, which [options.list] sets.
type options struct {
	bind, recursive           bool
	ro, nosuid, nodev, noexec bool
	idmap                     bool
	kept                      []string // as they are
	data                      []string // for the file system itself
}

// inert change nothing that the rules are about: times and writing behind.
var inert = strings.Fields(`
	async sync dirsync atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime
	iversion noiversion lazytime nolazytime mand nomand loud silent nosymfollow
	rnodiratime rdiratime rrelatime rnorelatime rnoatime ratime rstrictatime rnostrictatime rnosymfollow
	tmpcopyup idmap ridmap`)

// private are the propagations that nothing of the container leaves by.
var private = strings.Fields("private rprivate slave rslave")

func parseOptions(field string, list []string) (options, error) {
	var o options
	for _, option := range list {
		switch {
		case o.parseFlag(option):
		case slices.Contains(inert, option):
			o.idmap = o.idmap || strings.HasSuffix(option, "idmap")
			if !slices.Contains(o.kept, option) {
				o.kept = append(o.kept, option)
			}
		case slices.Contains(private, option):
		case option == "remount" || strings.HasSuffix(option, "shared") || strings.HasSuffix(option, "unbindable"):
			return options{}, denied(field+".options", "saw %s, want a private mount of the container's own", option)
		default:
			o.data = append(o.data, option)
		}
	}
	return o, nil
}

// parseFlag lets the last of two opposites win, as runc does.
func (o *options) parseFlag(option string) bool {
	switch option {
	case "bind":
		o.bind = true
	case "rbind":
		o.bind, o.recursive = true, true
	case "ro", "rro":
		o.ro = true
	case "rw", "rrw":
		o.ro = false
	case "noexec", "rnoexec":
		o.noexec = true
	case "exec", "rexec":
		o.noexec = false
	case "nosuid", "rnosuid", "nodev", "rnodev", "suid", "rsuid", "dev", "rdev", "symfollow", "rsymfollow", "defaults":
	default:
		return false
	}
	return true
}

// list gives the options in one order. A recursive bind has each restriction
// twice: the flags hold for its top mount, the attributes for those below.
func (o options) list() []string {
	var out []string
	if o.bind {
		out = append(out, map[bool]string{false: "bind", true: "rbind"}[o.recursive], "rprivate")
	}
	flags := o.restrictions()
	out = append(out, flags...)
	out = append(out, o.kept...)
	out = append(out, o.data...)
	if o.recursive {
		for _, flag := range flags {
			out = append(out, "r"+flag)
		}
	}
	return out
}

func (o options) restrictions() []string {
	var out []string
	for _, flag := range []struct {
		on   bool
		name string
	}{{o.ro, "ro"}, {o.nosuid, "nosuid"}, {o.nodev, "nodev"}, {o.noexec, "noexec"}} {
		if flag.on {
			out = append(out, flag.name)
		}
	}
	return out
}

// tmpfsSize is what a tmpfs gets that does not say, as container engines do.
const tmpfsSize = 64 << 20

// tmpfsData bounds size and forgets what would lift it: blocks instead of
// bytes, inodes without number, huge pages.
func tmpfsData(data []string, most int64) []string {
	size, text := int64(0), ""
	var out []string
	for _, option := range data {
		name, value, _ := strings.Cut(option, "=")
		switch {
		case name == "size":
			size, text = parseSize(value), option
		case name == "nr_blocks", name == "nr_inodes" && parseSize(value) == 0, name == "huge" && value != "never":
		default:
			out = append(out, option)
		}
	}
	if size == 0 {
		size, text = tmpfsSize, sizeOption(tmpfsSize)
	}
	if most > 0 && size > most {
		text = sizeOption(most)
	}
	return append(out, text)
}

func sizeOption(n int64) string { return "size=" + strconv.FormatInt(n, 10) }

// parseSize reads a number as memparse of the kernel does, but in decimal only;
// it gives 0 for one that it cannot read, for a share of the memory, and for
// one above [maxSize].
func parseSize(text string) int64 {
	text = strings.ToLower(text)
	shift := 0
	if n := len(text) - 1; n > 0 {
		if i := strings.IndexByte("kmgtpe", text[n]); i >= 0 {
			text, shift = text[:n], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > maxSize>>shift || text[0] == '0' || text[0] == '+' {
		return 0
	}
	return n << shift
}

const maxSize = 1 << 62
