package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
	"github.com/sage-sandbox/sage/spec"
)

// survey looks at what a bundle names on the host. The descriptors of what it
// looked at stay open, so that after the mounts were made it can be told
// whether they are of the same inodes.
type survey struct {
	root   *os.File         // of the container, O_PATH
	prefix string           // its path
	pins   map[int]*os.File // by index of the mount
	mounts []mountPoint     // of this process, read at most once
	socks  []string         // paths of the sockets that are bound now, likewise
	facts  hardening.Facts
}

// newSurvey looks at s, whose relative paths are relative to the current
// directory. It is to be closed.
func newSurvey(s *specs.Spec, p spec.Policy) (*survey, error) {
	v := &survey{pins: map[int]*os.File{}, facts: hostFacts()}
	if err := v.openRoot(s); err != nil {
		return nil, err
	}
	v.facts.RootFS, v.facts.Namespaces = v.prefix, namespaceFacts(s)
	if err := v.look(s, p); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// hostFacts are those that no bundle is needed for.
func hostFacts() hardening.Facts {
	return hardening.Facts{
		Arch: goruntime.GOARCH, AppArmor: appArmorEnabled(),
		CPUs: possibleCPUs(), NoSwapLimit: noSwapLimit(), CgroupV2: cgroups.IsCgroup2UnifiedMode(),
		HugePages: hugePages("/sys/kernel/mm/hugepages"),
	}
}

func (v *survey) look(s *specs.Spec, p spec.Policy) error {
	for i := range s.Mounts {
		facts, err := v.mount(i, &s.Mounts[i])
		if err != nil {
			return errcode.Wrap(errcode.PermissionDenied, fmt.Sprintf("look at mounts[%d].source", i), err)
		}
		v.facts.Mounts = append(v.facts.Mounts, facts)
	}
	for _, path := range p.Files.ReadPaths {
		facts, err := v.readPath(path)
		if err != nil {
			return err
		}
		v.facts.ReadPaths = append(v.facts.ReadPaths, facts)
	}
	for _, path := range p.Files.ProtectedPaths {
		v.facts.Protected = append(v.facts.Protected, v.protected(path))
	}
	return nil
}

func (v *survey) openRoot(s *specs.Spec) (err error) {
	if s.Root == nil || s.Root.Path == "" {
		return errors.New("root.path: saw none, want the container's root file system")
	}
	v.root, v.prefix, err = openPath(s.Root.Path)
	return errcode.Wrap(errcode.PermissionDenied, "look at root.path", err)
}

func (v *survey) close() {
	_ = v.root.Close()
	for _, f := range v.pins {
		_ = f.Close()
	}
}

// openPath opens what path leads to without reading it, and says where that is.
func openPath(path string) (*os.File, string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	resolved, err := whereIs(f)
	if err != nil {
		_ = f.Close()
		return nil, "", err
	}
	return f, resolved, nil
}

func whereIs(f *os.File) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}

func (v *survey) mount(i int, m *specs.Mount) (hardening.MountFacts, error) {
	facts := hardening.MountFacts{Destination: v.resolve(m.Destination)}
	if !isBind(m) {
		return facts, nil
	}
	f, err := v.source(m.Source, &facts)
	if f != nil {
		v.pins[i] = f
	}
	return facts, err
}

func (v *survey) readPath(path string) (hardening.MountFacts, error) {
	facts := hardening.MountFacts{Destination: path}
	f, err := v.source(path, &facts)
	if f != nil {
		_ = f.Close() // the host's own choice: nobody else can swap it
	}
	return facts, err
}

// protected looks a path of the container up on the host: on the last mount
// that it lies on, and there without following any link.
func (v *survey) protected(path string) hardening.ProtectedFacts {
	facts := hardening.ProtectedFacts{Path: path, Mount: -1}
	base, source, rest := v.root, v.prefix, path
	for i := range v.facts.Mounts {
		if dest := v.facts.Mounts[i].Destination; v.pins[i] != nil && isBelow(path, dest) {
			facts.Mount, base, source, rest = i, v.pins[i], v.facts.Mounts[i].Source, strings.TrimPrefix(path, dest)
		}
	}
	facts.Source = filepath.Join(source, rest)
	facts.Kind = kindBelow(base, strings.Trim(rest, "/"))
	return facts
}

func kindBelow(dir *os.File, rest string) hardening.SourceKind {
	if rest == "" {
		rest = "."
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(int(dir.Fd()), rest, &how)
	if errors.Is(err, unix.ELOOP) {
		return hardening.SourceSymlink
	}
	if err != nil {
		return hardening.SourceMissing
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return hardening.SourceMissing
	}
	return kindOf(st.Mode)
}

// isBind says whether m's source is a path on the host.
func isBind(m *specs.Mount) bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// source looks at a path on the host, and gives it open unless it is missing.
func (v *survey) source(path string, facts *hardening.MountFacts) (*os.File, error) {
	f, resolved, err := openPath(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		facts.Kind = hardening.SourceMissing
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return f, v.inspect(f, resolved, facts)
}

func (v *survey) inspect(f *os.File, resolved string, facts *hardening.MountFacts) error {
	facts.Source = resolved
	var st unix.Stat_t
	var sfs unix.Statfs_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Fstatfs(int(f.Fd()), &sfs)); err != nil {
		return err
	}
	facts.Kind, facts.Magic = kindOf(st.Mode), int64(sfs.Type) //nolint:unconvert // int32 on other architectures
	facts.Readonly, facts.NoExec = sfs.Flags&unix.ST_RDONLY != 0, sfs.Flags&unix.ST_NOEXEC != 0
	facts.NoSymFollow = sfs.Flags&noSymFollow != 0
	facts.Bytes = int64(sfs.Blocks) * int64(sfs.Bsize) //nolint:unconvert // as above
	if facts.Kind == hardening.SourceSocket {
		facts.Socket = resolved
	}
	if facts.Kind != hardening.SourceDirectory {
		return nil
	}
	var err error
	if facts.Below, err = v.below(resolved); err != nil {
		return err
	}
	facts.Socket, facts.Unsearched, err = v.findSocket(resolved)
	return err
}

// noSymFollow is ST_NOSYMFOLLOW of statfs(2) (Linux 5.10).
const noSymFollow = 0x2000

func kindOf(mode uint32) hardening.SourceKind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return hardening.SourceFile
	case unix.S_IFDIR:
		return hardening.SourceDirectory
	case unix.S_IFSOCK:
		return hardening.SourceSocket
	case unix.S_IFIFO:
		return hardening.SourceFIFO
	case unix.S_IFLNK:
		return hardening.SourceSymlink
	}
	return hardening.SourceDevice
}

// below lists the file systems that are mounted below dir.
func (v *survey) below(dir string) ([]hardening.SubmountFacts, error) {
	mounts, err := v.allMounts()
	if err != nil {
		return nil, err
	}
	var out []hardening.SubmountFacts
	for _, m := range mounts {
		if m.path == dir || !isBelow(m.path, dir) {
			continue
		}
		var sfs unix.Statfs_t
		// A mount that cannot be asked, or was covered by another, is judged as
		// one of no known kind: the worst.
		if err := unix.Statfs(m.path, &sfs); err != nil {
			sfs.Type = -1
		}
		out = append(out, hardening.SubmountFacts{Path: m.path, Magic: int64(sfs.Type)}) //nolint:unconvert // as above
	}
	return out, nil
}

func (v *survey) allMounts() (mounts []mountPoint, err error) {
	if v.mounts == nil {
		v.mounts, err = readMounts("/proc/self/mountinfo")
	}
	return v.mounts, err
}

// isBelow says whether path is dir or in it; both are clean and absolute.
func isBelow(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// maxSearch is how many directory entries are looked at for a socket. It is
// the plain error for the usual mistake; that a socket in a mount cannot be
// used is the second seccomp layer's to see to.
const maxSearch = 4096

// findSocket looks for a socket below dir: first among those bound by someone
// in this network namespace, then among the files.
func (v *survey) findSocket(dir string) (found string, unsearched bool, err error) {
	if v.socks == nil {
		data, err := sys.ReadFile("/proc/net/unix")
		if err != nil {
			return "", false, err
		}
		v.socks = boundPaths(string(data))
	}
	for _, p := range v.socks {
		if isBelow(p, dir) {
			return p, false, nil
		}
	}
	left := maxSearch
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		left--
		switch {
		case left == 0:
			return fs.SkipAll
		case err != nil:
			return fs.SkipDir // gone, or not to be read: nothing to connect to either
		case d.Type()&fs.ModeSocket != 0:
			found = p
			return fs.SkipAll
		}
		return nil
	})
	return found, left <= 0, err
}

// boundPaths reads /proc/net/unix, unix(7): the path is the eighth field where
// there is one, and begins with "@" for an abstract name.
func boundPaths(text string) []string {
	out := []string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !path.IsAbs(fields[7]) {
			continue
		}
		if resolved, err := filepath.EvalSymlinks(fields[7]); err == nil {
			out = append(out, resolved)
		}
	}
	return out
}

// resolve gives the path that dest leads to in the container's root file
// system. What does not exist yet cannot be a link.
func (v *survey) resolve(dest string) string {
	dest = path.Clean("/" + dest)
	if dest == "/" {
		return dest
	}
	f, err := openIn(v.root, dest)
	if err != nil {
		return path.Join(v.resolve(path.Dir(dest)), path.Base(dest))
	}
	defer f.Close()
	found, err := whereIs(f)
	if err != nil || !isBelow(found, v.prefix) {
		return dest
	}
	return path.Clean("/" + strings.TrimPrefix(found, v.prefix))
}

// openIn opens path as a process with that root directory would (openat2(2),
// Linux 5.6), without reading it.
func openIn(root *os.File, path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(int(root.Fd()), path, &how)
		// EAGAIN: something was renamed meanwhile, and the walk is to be made again.
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "openat2", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}
