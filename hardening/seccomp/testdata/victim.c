// victim FILTER            tries the calls that it reads, one a line
// victim FILTER PROGRAM..  executes the program
//
// Both after it has loaded the filter from that file, or none if it is "-".
// A line is "64" or "32" (the i386 table, by int 0x80), the number, and six
// arguments in hex, of which "p" is the address of a page of zeroes. The
// answer is a line with the errno, 0 for success, or "signal N".
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char page[4096] __attribute__((aligned(4096)));

static void load(const char *name)
{
	static struct sock_filter code[BPF_MAXINSNS];
	FILE *f = fopen(name, "rb");
	if (!f) {
		perror(name);
		exit(120);
	}
	struct sock_fprog prog = { .filter = code };
	prog.len = fread(code, sizeof *code, BPF_MAXINSNS, f);
	fclose(f);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog)) {
		perror("load filter");
		exit(121);
	}
}

static long i386(long nr)
{
#ifdef __x86_64__
	long ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(0), "c"(0), "d"(0) : "memory", "r8", "r9", "r10", "r11");
	if (ret < 0 && ret > -4096) {
		errno = -ret;
		return -1;
	}
	return ret;
#else
	(void)nr;
	exit(122);
#endif
}

static void attempt(const char *how, char words[7][32])
{
	unsigned long n[7];
	for (int i = 0; i < 7; i++)
		n[i] = words[i][0] == 'p' ? (unsigned long)page : strtoul(words[i], NULL, 16);
	// A process and a session of its own: the call may end the one, and vhangup
	// would hang up the terminal of the other.
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		long ret = strcmp(how, "32") ? syscall(n[0], n[1], n[2], n[3], n[4], n[5], n[6]) : i386(n[0]);
		_exit(ret == -1 ? errno : 0);
	}
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(123);
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else
		printf("%d\n", WEXITSTATUS(status));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 124;
	if (strcmp(argv[1], "-"))
		load(argv[1]);
	if (argc > 2) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		return 125;
	}
	char how[4], words[7][32];
	while (scanf("%3s %31s %31s %31s %31s %31s %31s %31s", how, words[0], words[1], words[2], words[3], words[4],
	             words[5], words[6]) == 8)
		attempt(how, words);
	return 0;
}
