package main

import "golang.org/x/sys/unix"

// otherTables are calls that only i386 has.
func otherTables() []attempt {
	args := append(append(word(unix.AF_ALG, 4), word(unix.SOCK_SEQPACKET, 4)...), word(0, 4)...)
	return []attempt{
		{"socketcall alg", call(unix.SYS_SOCKETCALL, 1, data(args))},
		{"umount", call(unix.SYS_UMOUNT, text("/nowhere"))},
		{"stime", call(unix.SYS_STIME, 0)},
		{"clock_settime64", call(unix.SYS_CLOCK_SETTIME64, 1, zeroes(16))},
	}
}
