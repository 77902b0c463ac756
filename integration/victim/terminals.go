package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// terminals has the requests that act on somebody at a terminal. Each is made
// on a terminal of the victim's own, which the kernel lets it do.
func terminals() []attempt {
	letter, discipline, subcode := data([]byte("x")), data(word(0, 4)), data([]byte{10})
	return aliases([]attempt{
		{"TIOCSTI", callOn(terminal, unix.SYS_IOCTL, unix.TIOCSTI, letter)},
		{"TIOCSTI, a bit above", callOn(terminal, unix.SYS_IOCTL, bit32|unix.TIOCSTI, letter)},
		{"TIOCSTI on stdin", call(unix.SYS_IOCTL, 0, unix.TIOCSTI, letter)},
		{"TIOCSTI on stdin, a bit above", call(unix.SYS_IOCTL, 0, bit32|unix.TIOCSTI, letter)},
		{"TIOCSTI on stdin, all bits above", call(unix.SYS_IOCTL, 0, ^uintptr(0)&^0xffffffff|unix.TIOCSTI, letter)},
		{"TIOCLINUX", callOn(terminal, unix.SYS_IOCTL, unix.TIOCLINUX, subcode)},
		{"TIOCLINUX, a bit above", callOn(terminal, unix.SYS_IOCTL, bit32|unix.TIOCLINUX, subcode)},
		{"TIOCSETD", callOn(terminal, unix.SYS_IOCTL, unix.TIOCSETD, discipline)},
		{"TIOCSETD, a bit above", callOn(terminal, unix.SYS_IOCTL, bit32|unix.TIOCSETD, discipline)},
		{"TIOCCONS", callOn(terminal, unix.SYS_IOCTL, unix.TIOCCONS, 0)},
		{"TIOCGWINSZ", callOn(terminal, unix.SYS_IOCTL, unix.TIOCGWINSZ, zeroes(8))},
	})
}

// terminal is the slave of a new pair, and this session's own.
func terminal() (int, error) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	slave, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, err
	}
	return slave, unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0)
}
