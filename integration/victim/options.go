package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// levels are the socket options that a filter has to know by number.
var levels = []struct {
	name    string
	level   uintptr
	options []uintptr
}{
	{"ip", unix.SOL_IP, []uintptr{20, 35, 36, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 64, 65, 96, 97, 128, 129}},
	{"ipv6", unix.SOL_IPV6, []uintptr{20, 21, 27, 28, 42, 43, 44, 45, 46, 47, 48, 64, 65, 66, 67}},
	{"tcp", unix.SOL_TCP, []uintptr{1, 19, 31}},
	{"socket", unix.SOL_SOCKET, []uintptr{9, 26, 50, 51, 52}},
}

// options are tried on a descriptor that is not open, which the kernel says
// when it is asked: what is denied never gets as far.
func options() []attempt {
	var list []attempt
	for _, l := range levels {
		for _, o := range l.options {
			list = append(list, attempt{
				fmt.Sprintf("setsockopt %s %d", l.name, o),
				call(unix.SYS_SETSOCKOPT, none, l.level, o, zeroes(4), 4),
			})
		}
	}
	return aliases(append(list,
		attempt{"setsockopt ip 35, a bit above", call(unix.SYS_SETSOCKOPT, none, bit32|unix.SOL_IP, bit32|35, zeroes(4), 4)},
		attempt{"setsockopt ipv6 20, a bit above", call(unix.SYS_SETSOCKOPT, none, bit32|unix.SOL_IPV6, bit32|20, zeroes(4), 4)},
		attempt{"setsockopt tcp 31, a bit above", call(unix.SYS_SETSOCKOPT, none, bit32|unix.SOL_TCP, bit32|31, zeroes(4), 4)},
	))
}
