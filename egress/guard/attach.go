package guard

import (
	"crypto/sha1" //nolint:gosec // the kernel's own name for a program before Linux 6.18
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// Record is what [Attach] did, for [Verify] in another process. It is plain JSON.
type Record struct {
	Options Options `json:"options"`
	// Errno says that a refused call gets ENETUNREACH, or EACCES for bind; false
	// is EPERM for all, before Linux 5.18.
	Errno    bool       `json:"errno"`
	Programs []Attached `json:"programs"`
}

// Attached identifies a program in the kernel. Neither its number nor its
// instructions change while it is there; the number is used again after a
// reboot, the rest is not then the same by accident.
type Attached struct {
	Kind Kind   `json:"kind"`
	ID   uint32 `json:"id"`
	Tag  string `json:"tag"` // the kernel's hash of the instructions as loaded
	// Translated is a SHA-256 of the instructions as the kernel runs them; "" where
	// it does not show them.
	Translated string `json:"translated,omitempty"`
}

// Attach puts the guard on a cgroup, which is given by a descriptor of its
// directory, and says how to know it again. It needs root on the host, and takes
// some 0.8 ms. The guard stays until the cgroup is removed; on an error there is
// none of it. What is attached to the cgroup already stays in force.
func Attach(cgroup int, o Options) (Record, error) {
	if err := onUnified(cgroup); err != nil {
		return Record{}, err
	}
	l, err := Load(o)
	if err != nil {
		return Record{}, err
	}
	defer l.Close()
	return l.Attach(cgroup)
}

// Loaded is a guard in the kernel that is on no cgroup yet.
type Loaded struct {
	options  Options
	programs []loaded
	errno    bool
}

// Load has the kernel verify and compile the programs, which is most of what a
// guard costs and needs no cgroup. What it gives is to be closed.
func Load(o Options) (*Loaded, error) {
	programs, errno, err := load(o)
	if err != nil {
		return nil, err
	}
	return &Loaded{o, programs, errno}, nil
}

// Close gives up our hold on the programs; those that are attached stay.
func (l *Loaded) Close() {
	closeAll(l.programs)
	l.programs = nil
}

// Attach is [Attach] for a guard that is loaded.
func (l *Loaded) Attach(cgroup int) (Record, error) {
	if err := onUnified(cgroup); err != nil {
		return Record{}, err
	}
	loaded, r := l.programs, Record{Options: l.options, Errno: l.errno}
	before, err := inForce(cgroup, loaded)
	if err != nil {
		return Record{}, err
	}
	for i, l := range loaded {
		var one Attached
		if err = sys.AttachProgram(cgroup, l.fd, places[l.Kind].Attach); err == nil {
			one, err = l.identify()
		}
		if err != nil {
			return Record{}, errors.Join(notAttached(cgroup, l.Kind, err), detach(cgroup, loaded[:i+1]))
		}
		r.Programs = append(r.Programs, one)
	}
	if err := stillInForce(cgroup, before, r.Programs); err != nil {
		return Record{}, errors.Join(err, detach(cgroup, loaded))
	}
	return r, nil
}

// loaded is a program in the kernel.
type loaded struct {
	Program
	fd int
}

func closeAll(programs []loaded) {
	for _, l := range programs {
		_ = unix.Close(l.fd)
	}
}

// load loads all programs or none. The first system call program shows whether
// the kernel has bpf_set_retval: EINVAL if not.
func load(o Options) ([]loaded, bool, error) {
	programs, err := loadAll(o, true)
	if errors.Is(err, unix.EINVAL) {
		programs, plainErr := loadAll(o, false)
		if plainErr == nil {
			return programs, false, nil
		}
	}
	return programs, true, err
}

func loadAll(o Options, errno bool) ([]loaded, error) {
	programs, err := Build(o, errno)
	if err != nil {
		return nil, err
	}
	all := make([]loaded, 0, len(programs))
	for _, p := range programs {
		request := places[p.Kind]
		request.Instructions = p.Instructions
		fd, err := sys.LoadProgram(request)
		if err != nil {
			closeAll(all)
			return nil, notLoaded(p.Kind, err)
		}
		all = append(all, loaded{p, fd})
	}
	return all, nil
}

// detach takes back; a program that is not attached is no error.
func detach(cgroup int, programs []loaded) error {
	var errs []error
	for _, l := range programs {
		err := sys.DetachProgram(cgroup, l.fd, places[l.Kind].Attach)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("%s: %w", l.Kind, err))
		}
	}
	return errors.Join(errs...)
}

// identify reads a program back, and compares its tag with our own instructions.
func (l loaded) identify() (Attached, error) {
	info, err := sys.InspectProgram(l.fd)
	if err != nil {
		return Attached{}, err
	}
	tags := tagsOf(l.Instructions)
	if tag := hex.EncodeToString(info.Tag[:]); !slices.Contains(tags, tag) {
		return Attached{}, fmt.Errorf("tag: saw %s, want that of the instructions, %s", tag, tags)
	}
	return describe(l.Kind, info), nil
}

// tagsOf gives what the kernel may call a program without maps: a SHA-256 from
// Linux 6.18 on, a SHA-1 before.
func tagsOf(instructions []byte) []string {
	older, newer := sha1.Sum(instructions), sha256.Sum256(instructions) //nolint:gosec // as above
	return []string{hex.EncodeToString(newer[:unix.BPF_TAG_SIZE]), hex.EncodeToString(older[:unix.BPF_TAG_SIZE])}
}

func describe(kind Kind, info sys.ProgramInfo) Attached {
	a := Attached{Kind: kind, ID: info.ID, Tag: hex.EncodeToString(info.Tag[:])}
	if info.Translated != nil {
		digest := sha256.Sum256(withoutCalls(info.Translated))
		a.Translated = hex.EncodeToString(digest[:])
	}
	return a
}

// withoutCalls takes out which function is called, in place: the kernel hides
// that from a process while kernel.kptr_restrict forbids it, and the tag covers it.
func withoutCalls(instructions []byte) []byte {
	const call = unix.BPF_JMP | unix.BPF_CALL
	for i := 0; i+size <= len(instructions); i += size {
		if instructions[i] == call {
			clear(instructions[i+4 : i+size])
		}
	}
	return instructions
}

// inForce gives, for every kind, what is run for the cgroup's sockets now.
func inForce(cgroup int, programs []loaded) (map[Kind][]uint32, error) {
	ids := make(map[Kind][]uint32, len(programs))
	for _, l := range programs {
		now, err := sys.EffectivePrograms(cgroup, places[l.Kind].Attach)
		if err != nil {
			return nil, errcode.Wrap(errcode.NetworkGuardUnsupported, "look for programs on the cgroup", fmt.Errorf("%s: %w", l.Kind, err))
		}
		ids[l.Kind] = now
	}
	return ids, nil
}

// stillInForce compares afterwards. A program above that lets others take its
// place (BPF_F_ALLOW_OVERRIDE) would no longer be run beside ours, and what it
// kept out would come in.
func stillInForce(cgroup int, before map[Kind][]uint32, ours []Attached) error {
	for _, a := range ours {
		now, err := sys.EffectivePrograms(cgroup, places[a.Kind].Attach)
		if err != nil {
			return errcode.Wrap(errcode.NetworkGuardFailed, "look for programs on the cgroup", fmt.Errorf("%s: %w", a.Kind, err))
		}
		if !slices.Contains(now, a.ID) {
			return missing(a, now)
		}
		for _, id := range before[a.Kind] {
			if !slices.Contains(now, id) {
				return displaced(a.Kind, id)
			}
		}
	}
	return nil
}
