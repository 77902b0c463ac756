package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
)

// checkNetwork asks the kernel again, at start and at exec, whether the guard is
// on the container's cgroup and init in that.
func (h *Host) checkNetwork(record *state.Record, pid int) error {
	if record.Network == nil || !record.Network.Guard {
		return nil
	}
	s, err := state.LoadServing(h.stateDir(record.ID))
	if err != nil {
		return err
	}
	return checkServing(s, pid)
}

func checkServing(s *state.Serving, pid int) error {
	in, err := isMember(s.Cgroup, pid)
	if err == nil && !in {
		err = errors.New("saw init in another cgroup than the guard's")
	}
	if err != nil {
		return errcode.Wrap(errcode.NetworkGuardFailed, "look at the container's cgroup", err)
	}
	group, err := os.Open(s.Cgroup)
	if err != nil {
		return errcode.Wrap(errcode.NetworkGuardFailed, "open the container's cgroup", err)
	}
	defer group.Close()
	return verifyGuard(group, s.Guard)
}

// network says whether the guard is there, and who serves behind it.
func (a *Attestation) network(c *Container, record *state.Record) error {
	n := record.Network
	if n == nil || !n.Guard {
		return nil
	}
	s, err := state.LoadServing(c.host.stateDir(record.ID))
	if err != nil {
		return err
	}
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	a.line("network guard", "attached", checkServing(s, saved.InitProcessPid))
	if !n.Proxy {
		return nil
	}
	a.line("network bridge", "running", lives(s.Bridge))
	if waiting, err := c.waiting(); err != nil || waiting {
		return err // the proxy comes with the start
	}
	a.line("network proxy", "running", lives(s.Proxy))
	return nil
}

// line has one word for what is as it should be, and an error for what is not.
func (a *Attestation) line(field, want string, err error) {
	got := want
	if err != nil {
		got = err.Error()
	}
	a.Lines = append(a.Lines, Attested{Line: doctor.Line{Difference: doctor.Difference{Field: field, Want: want, Got: got}, OK: err == nil}})
}

// egressFacts are those that an exec needs: where the proxy listens.
func (c *Container) egressFacts(record *state.Record) (hardening.EgressFacts, error) {
	n := record.Network
	if n == nil || !n.Proxy {
		return hardening.EgressFacts{}, nil
	}
	s, err := state.LoadServing(c.host.stateDir(record.ID))
	if err != nil {
		return hardening.EgressFacts{}, err
	}
	return hardening.EgressFacts{Port: s.Port, Own: n.Own}, nil
}

// checkEgressMounts compares what is mounted for the proxy with what was made
// for it: the image may have had links in the way.
func (a *admission) checkEgressMounts(root *os.File) error {
	n := a.record.Network
	if n == nil || !n.Proxy {
		return nil
	}
	facts := a.facts.Egress
	mounted := map[string]string{facts.FolderAt: facts.Folder}
	if len(n.Transparent) > 0 {
		mounted[facts.ResolvConfAt] = facts.ResolvConf
	}
	for at, source := range mounted {
		if err := sameFile(root, at, source); err != nil {
			return err
		}
	}
	return nil
}

func sameFile(root *os.File, at, source string) error {
	f, err := openIn(root, at)
	if err != nil {
		return err
	}
	defer f.Close()
	var got, want unix.Stat_t
	if err := cmp.Or(unix.Fstat(int(f.Fd()), &got), unix.Stat(source, &want)); err != nil {
		return err
	}
	if got.Dev != want.Dev || got.Ino != want.Ino {
		return fmt.Errorf("mounts: at %s is not what is there for the container's proxy", at)
	}
	return nil
}
