package expect

import "strings"

// same says for attempts that come to the same without any policy why that is,
// so that no row can prove nothing unnoticed. A name stands for all that it
// begins, unless it ends with a stop.
var same = map[string]string{
	"allowed ":                        "it is to be let through",
	"TIOCGWINSZ.":                     "it is to be let through",
	"socketpair unix.":                "it is to be let through",
	"socketpair unix sequence.":       "it is to be let through",
	"setsockopt ip 20.":               "it is to be let through",
	"setsockopt ip 36.":               "it is to be let through",
	"setsockopt ip 40.":               "it is to be let through",
	"setsockopt ip 41.":               "it is to be let through",
	"setsockopt ipv6 21.":             "it is to be let through",
	"setsockopt ipv6 28.":             "it is to be let through",
	"setsockopt ipv6 66.":             "it is to be let through",
	"setsockopt ipv6 67.":             "it is to be let through",
	"setsockopt tcp 1.":               "it is to be let through",
	"setsockopt socket 9.":            "it is to be let through",
	"setsockopt socket 26.":           "it is to be let through",
	"setsockopt socket 51.":           "it is to be let through",
	"call ":                           "it is newer than any kernel here",
	"x32 ":                            "kernels are built without that table",
	"socket of family ":               "kernels are built without most families",
	"socket inet smc":                 "this kernel is built without it",
	"socket inet sctp":                "this kernel is built without it",
	"socket inet6 sctp":               "this kernel is built without it",
	"socket inet l2tp":                "this kernel is built without it",
	"socket alg":                      "this kernel is built without it",
	"socket all bits":                 "there is no such family",
	"socketpair tipc":                 "this kernel is built without it",
	"prctl SET_MM":                    "root on this machine has no CAP_SYS_RESOURCE",
	"prctl SET_IO_FLUSHER":            "root on this machine has no CAP_SYS_RESOURCE",
	"less likely to be killed":        "root on this machine has no CAP_SYS_RESOURCE",
	"real time":                       "this kernel gives no cgroup a share of it",
	"listns":                          "this kernel is older",
	"uselib":                          "the kernel dropped it",
	"_sysctl":                         "the kernel dropped it",
	"nfsservctl":                      "the kernel dropped it",
	"lookup_dcookie":                  "the kernel dropped it",
	"vserver":                         "the kernel never had it",
	"afs_syscall":                     "the kernel never had it",
	"tuxcall":                         "the kernel never had it",
	"write itself":                    "a program that runs is not written",
	"write init's program":            "a program that runs is not written",
	"write /proc/sysrq-trigger":       "this kernel is built without it",
	"write /proc/sys/kernel/modprobe": "this kernel is built without modules",
	"write /proc/sys/kernel/yama":     "this kernel is built without it",
	"write /proc/sys/fs/binfmt_misc":  "nobody mounted it",
	"write /sys/kernel/uevent_helper": "this kernel is built without it",
	"write /proc/sys/user/":           "its mode lets nobody but the namespace's root",
	"read /":                          "not every kernel has it",
}

// WhySame gives the reason of an attempt, or "".
func WhySame(attempt string) string {
	for prefix, why := range same {
		if strings.HasPrefix(attempt+".", prefix) {
			return why
		}
	}
	return ""
}
