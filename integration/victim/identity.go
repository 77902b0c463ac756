package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// somebody is a user that no container here has.
const somebody = 12345

// identity are ways to become somebody else, or to be allowed more.
func identity() []attempt {
	return []attempt{
		{"setgroups", func() error { return syscall.Setgroups([]int{somebody}) }},
		{"setgid", func() error { return syscall.Setgid(somebody) }},
		{"setuid", func() error { return syscall.Setuid(somebody) }},
		{"chown", func() error {
			return withFile("chown", func(name string) error { return os.Chown(name, somebody, somebody) })
		}},
		{"read what nobody may read", readClosed},
		{"capset", gainCapability},
		{"ambient capability", call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)},
		{"securebits", call(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, 1, 0, 0, 0)},
		{"nice", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
		{"real time", call(unix.SYS_SCHED_SETSCHEDULER, 0, 1, data(word(1, 4)))},
		{"core files", func() error { return raise(unix.RLIMIT_CORE, 1<<20) }},
		{"open files", func() error { return raise(unix.RLIMIT_NOFILE, 4096) }},
		{"setuid program", becomeOwner},
		{"low port", func() error { return listenOn(80) }},
		{"loopback server", func() error { return listenOn(0) }},
		{"raise a link", raiseLink},
	}
}

func withFile(name string, do func(name string) error) error {
	name = "/tmp/" + name + "-" + pid()
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		return err
	}
	return do(name)
}

// readClosed is for a right to override modes, which an owner has not got.
func readClosed() error {
	return withFile("closed", func(name string) error {
		if err := os.Chmod(name, 0); err != nil {
			return err
		}
		_, err := os.ReadFile(name)
		return err
	})
}

// gainCapability asks for CAP_SYS_ADMIN beside what the thread has.
func gainCapability() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return err
	}
	sets[0].Permitted |= 1 << unix.CAP_SYS_ADMIN
	sets[0].Effective |= 1 << unix.CAP_SYS_ADMIN
	return unix.Capset(&head, &sets[0])
}

func raise(which int, limit uint64) error {
	return unix.Setrlimit(which, &unix.Rlimit{Cur: limit, Max: limit})
}

// becomeOwner runs a program with a setuid bit, which is somebody's and not
// root's: then root gets another user, too, if the bit counts.
func becomeOwner() error {
	out, err := command("/victim-setuid", "euid").Output()
	if err != nil {
		return err
	}
	if string(out) == strconv.Itoa(somebody) {
		return nil
	}
	return unix.EPERM
}

// listenOn is a whole server with its client.
func listenOn(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	// One that was tried before this may not be forgotten yet.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Connect(client, address); err != nil {
		return err
	}
	_, _, err = unix.Accept(fd)
	return err
}

// raiseLink sends RTM_NEWLINK for the loopback device, as "ip link set lo up".
func raiseLink() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	body := make([]byte, unix.SizeofIfInfomsg)
	body[4], body[8], body[12] = 1, unix.IFF_UP, unix.IFF_UP
	head := append(word(unix.SizeofNlMsghdr+unix.SizeofIfInfomsg, 4), word(unix.RTM_NEWLINK, 2)...)
	head = append(append(head, word(unix.NLM_F_REQUEST|unix.NLM_F_ACK, 2)...), make([]byte, 8)...)
	if err := unix.Sendto(fd, append(head, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		return errors.Join(err, errors.New("short answer"))
	}
	return fault(unix.Errno(-int32(uint32(answer[16]) | uint32(answer[17])<<8 | uint32(answer[18])<<16 | uint32(answer[19])<<24)))
}
