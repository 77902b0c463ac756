package guard

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/sys"
)

// Verify asks the kernel whether the guard is on the cgroup as [Attach] left it:
// every program attached to this very cgroup, by its number, and with the same
// tag and instructions. That there are others is no error: all are asked, and a
// packet passes if none refuses. See [Foreign].
func Verify(cgroup int, r Record) error {
	if err := r.complete(); err != nil {
		return errcode.Wrap(errcode.NetworkGuardFailed, "read the network guard back", err)
	}
	if err := onUnified(cgroup); err != nil {
		return err
	}
	for _, want := range r.Programs {
		ids, _, err := sys.AttachedPrograms(cgroup, places[want.Kind].Attach)
		if err == nil && !slices.Contains(ids, want.ID) {
			return missing(want, ids)
		}
		if err == nil {
			err = want.compare()
		}
		if err != nil {
			return errcode.Wrap(errcode.NetworkGuardFailed, "read the network guard back", fmt.Errorf("%s: %w", want.Kind, err))
		}
	}
	return nil
}

// complete refuses a record that lacks what a guard for its options has, and by
// which nothing would be asked.
func (r Record) complete() error {
	if err := r.Options.Validate(); err != nil {
		return err
	}
	for _, kind := range r.Options.kinds() {
		if !slices.ContainsFunc(r.Programs, func(a Attached) bool { return a.Kind == kind && a.ID != 0 && a.Tag != "" }) {
			return fmt.Errorf("record: saw no %s, want one", kind)
		}
	}
	for _, a := range r.Programs {
		if _, known := places[a.Kind]; !known {
			return fmt.Errorf("record: saw %.32q, want a kind of program", a.Kind)
		}
	}
	return nil
}

// compare reads the program with that number. Where the kernel shows no
// instructions, the tag stands for them.
func (a Attached) compare() error {
	got, err := inspect(a.Kind, a.ID)
	if err != nil {
		return err
	}
	switch {
	case got.Tag != a.Tag:
		return fmt.Errorf("tag of program %d: saw %s, want %s", a.ID, got.Tag, a.Tag)
	case got.Translated != "" && a.Translated != "" && got.Translated != a.Translated:
		return fmt.Errorf("instructions of program %d: saw a digest of %s, want %s", a.ID, got.Translated, a.Translated)
	}
	return nil
}

func inspect(kind Kind, id uint32) (Attached, error) {
	fd, err := sys.OpenProgram(id)
	if err != nil {
		return Attached{}, err
	}
	defer unix.Close(fd)
	info, err := sys.InspectProgram(fd)
	return describe(kind, info), err
}

// Foreign lists the programs on the cgroup that are not the guard's, of the
// kinds that it has: somebody's with root on the host. None of them lets a
// packet pass that the guard refuses. One of a system call can change the error
// of a refusal, and then the wall still stands.
func Foreign(cgroup int, r Record) ([]Attached, error) {
	var foreign []Attached
	for _, kind := range Kinds() {
		ids, _, err := sys.AttachedPrograms(cgroup, places[kind].Attach)
		if err != nil {
			return nil, errcode.Wrap(errcode.NetworkGuardFailed, "look for programs on the cgroup", fmt.Errorf("%s: %w", kind, err))
		}
		for _, id := range ids {
			if slices.ContainsFunc(r.Programs, func(a Attached) bool { return a.Kind == kind && a.ID == id }) {
				continue
			}
			one, err := inspect(kind, id)
			if errors.Is(err, unix.ENOENT) {
				continue // taken off meanwhile
			}
			if err != nil {
				return nil, errcode.Wrap(errcode.NetworkGuardFailed, "read a program of the cgroup", err)
			}
			foreign = append(foreign, one)
		}
	}
	return foreign, nil
}
