package doctor

import (
	"fmt"
	"io/fs"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/sage-sandbox/sage/spec"
)

// status is what /proc/PID/status says, as far as a posture needs it.
type status struct {
	noNewPrivs, seccomp, filters                         int
	inheritable, permitted, effective, bounding, ambient uint64
	uid, gid                                             uint32
	groups                                               []uint32
}

// readStatus reads it in one piece, which the kernel makes in one go.
func readStatus(dir fs.FS) (status, error) {
	data, err := fs.ReadFile(dir, "status")
	if err != nil {
		return status{}, err
	}
	s, err := parseStatus(string(data))
	if err != nil {
		return status{}, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

// parseStatus wants every field: one that is missing is not 0, and a kernel
// that does not tell is one on which nothing can be attested.
func parseStatus(text string) (status, error) {
	lines, err := statusLines(text)
	if err != nil {
		return status{}, err
	}
	// A zombie keeps its status but has no namespaces and no filters any more.
	if state := lines["State"]; strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return status{}, ErrEnded
	}
	var s status
	for _, f := range []struct {
		name  string
		parse func(string) error
	}{
		{"NoNewPrivs", into(&s.noNewPrivs, strconv.Atoi)},
		{"Seccomp", into(&s.seccomp, strconv.Atoi)},
		{"Seccomp_filters", into(&s.filters, strconv.Atoi)}, // since Linux 5.9
		{"CapInh", into(&s.inheritable, parseCapSet)},
		{"CapPrm", into(&s.permitted, parseCapSet)},
		{"CapEff", into(&s.effective, parseCapSet)},
		{"CapBnd", into(&s.bounding, parseCapSet)},
		{"CapAmb", into(&s.ambient, parseCapSet)},
		{"Uid", into(&s.uid, parseIDs)},
		{"Gid", into(&s.gid, parseIDs)},
		{"Groups", into(&s.groups, parseGroups)},
	} {
		value, ok := lines[f.name]
		if !ok {
			return status{}, fmt.Errorf("%s: this kernel does not report it", f.name)
		}
		if err := f.parse(value); err != nil {
			return status{}, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return s, nil
}

// statusLines splits the file. What a process may choose in it is its name, in
// which the kernel escapes line ends; should it ever not, the second line of
// one field is an error, and no choice between the two.
func statusLines(text string) (map[string]string, error) {
	lines := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if !ok {
			return nil, fmt.Errorf("line %q: want a name and a colon", line)
		}
		if _, twice := lines[name]; twice {
			return nil, fmt.Errorf("%s: is there twice", name)
		}
		lines[name] = strings.TrimSpace(value)
	}
	return lines, nil
}

// into makes of a parser one that also stores what it parsed.
func into[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*to, err = parse(text)
		return err
	}
}

func parseCapSet(text string) (uint64, error) { return strconv.ParseUint(text, 16, 64) }

// parseIDs wants the real, effective, saved and file system id to be one: a
// process with two of them can change between them.
func parseIDs(text string) (uint32, error) {
	ids := strings.Fields(text)
	if len(ids) != 4 {
		return 0, fmt.Errorf("%q: want four ids", text)
	}
	if slices.ContainsFunc(ids, func(id string) bool { return id != ids[0] }) {
		return 0, fmt.Errorf("%q: real, effective, saved and file system id are not the same", text)
	}
	return parseID(ids[0])
}

func parseGroups(text string) ([]uint32, error) {
	groups := []uint32{}
	for field := range strings.FieldsSeq(text) {
		id, err := parseID(field)
		if err != nil {
			return nil, err
		}
		groups = append(groups, id)
	}
	slices.Sort(groups)
	return groups, nil
}

func parseID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	return uint32(id), err
}

func (s status) posture() spec.Posture {
	return spec.Posture{
		NoNewPrivs: s.noNewPrivs == 1, Seccomp: s.seccomp, Filters: s.filters,
		Bounding: capNames(s.bounding), Effective: capNames(s.effective), Permitted: capNames(s.permitted),
		Inheritable: capNames(s.inheritable), Ambient: capNames(s.ambient),
		UID: s.uid, GID: s.gid, Groups: s.groups,
	}
}

// capNames names the bits of a set, sorted by name. A bit that is newer than
// this table is named by its number: a policy cannot have asked for it.
func capNames(set uint64) []string {
	names := make([]string, 0, bits.OnesCount64(set))
	for bit := range 64 {
		switch {
		case set&(1<<bit) == 0:
		case bit < len(capabilities):
			names = append(names, "CAP_"+capabilities[bit])
		default:
			names = append(names, "CAP_"+strconv.Itoa(bit))
		}
	}
	slices.Sort(names)
	return names
}

// capabilities are the names of linux/capability.h, each at its number.
var capabilities = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
	SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)
