package spec

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// maxProjectID is the last below those that kubelet takes.
const maxProjectID = 1048576

func (f *hostFile) readQuota(it item) error {
	return it.fields(map[string]func(item) error{"project_ids": func(it item) error {
		text, err := it.string()
		if err != nil {
			return err
		}
		if f.ProjectIDs, err = parseIDRange(text); err != nil {
			return it.fault("%w", err)
		}
		return nil
	}})
}

func parseIDRange(s string) (IDRange, error) {
	first, last, _ := strings.Cut(s, "-")
	a, okA := decimal(first)
	b, okB := decimal(last)
	if !okA || !okB || a < 1 || a > b || b > maxProjectID {
		return IDRange{}, fmt.Errorf("want FIRST-LAST, both from 1 to %d and in that order", maxProjectID)
	}
	return IDRange{uint32(a), uint32(b)}, nil
}

func (f *hostFile) readDevices(it item) error {
	if it.kind != nodeList {
		return it.wanted("a list of {path, type, major, minor}")
	}
	for i, n := range it.values {
		d, err := readDevice(item{node: n, key: fmt.Sprintf("%s[%d]", it.key, i)})
		if err != nil {
			return err
		}
		f.Devices = append(f.Devices, d)
	}
	return nil
}

func readDevice(it item) (Device, error) {
	d := Device{Major: -1, Minor: -1}
	number := func(into *int64) func(item) error {
		return func(it item) (err error) {
			*into, err = it.number()
			return err
		}
	}
	text := func(into *string) func(item) error {
		return func(it item) (err error) {
			*into, err = it.string()
			return err
		}
	}
	err := it.fields(map[string]func(item) error{
		"path": text(&d.Path), "type": text(&d.Type), "major": number(&d.Major), "minor": number(&d.Minor),
	})
	if err != nil {
		return Device{}, err
	}
	if err := d.check(); err != nil {
		return Device{}, it.fault("%w", err)
	}
	return d, nil
}

// check wants a whole device, and none that reaches around the container.
func (d Device) check() error {
	switch {
	case cleanPath(d.Path) != nil || !strings.HasPrefix(d.Path, "/dev/"):
		return errors.New("path: want one below /dev")
	case d.Type != "c" && d.Type != "b":
		return errors.New("type: want c or b")
	case d.Major < 1 || d.Major >= 1<<12 || d.Minor < 0 || d.Minor >= 1<<20:
		return errors.New("major, minor: want both, as ls -l shows them")
	case d.reachesHost():
		return fmt.Errorf("saw %s %d:%d, which no container may have", d.Type, d.Major, d.Minor)
	}
	return nil
}

// hostDevices are those by number that give memory, disks, networks or virtual
// machines of the host: all of mem, the loops, tun, and what is dangerous of
// the miscellaneous ones. Those with a number of the moment are known by name.
var hostDevices = map[string]bool{
	"c 1:1": true, "c 1:2": true, "c 1:4": true, "c 1:6": true, "c 1:11": true, // mem, kmem, port, core, kmsg
	"c 10:126": true,                                     // userfaultfd
	"c 10:200": true,                                     // net/tun
	"c 10:203": true,                                     // cuse
	"c 10:229": true,                                     // fuse
	"c 10:232": true,                                     // kvm
	"c 10:236": true,                                     // mapper/control
	"c 10:237": true,                                     // loop-control
	"c 10:238": true, "c 10:241": true, "c 10:137": true, // vhost-net, vhost-vsock, vhci
}

func (d Device) reachesHost() bool {
	name := path.Base(d.Path)
	for _, prefix := range []string{"vhost", "dm-", "loop", "kvm", "userfaultfd"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return d.Type == "b" && d.Major == 7 || strings.HasPrefix(d.Path, "/dev/mapper/") ||
		hostDevices[fmt.Sprintf("%s %d:%d", d.Type, d.Major, d.Minor)]
}
