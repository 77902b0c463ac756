// A hostile program in a container: waits for others that are being started
// there and tries to get hold of them before their filters are in place.
//
// hijack          attacks until its standard input ends, and then prints what
//                 came of it: "seen S payload P runtime R exe E fd F trace T"
// hijack payload  is what is started: it lives for a moment and ends
// hijack wait     is the same that does not end
//
// Memory counts as the payload's if the mark below is found in it: then it was
// opened after the last execve, when there is nothing to gain. Everything else
// is the runtime's own process.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t mark = 0x7361676573616765;
static int seen, payload, runtime, exe, fds, traced;

static int open_of(int pid, const char *name, int flags)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

static int lives(int pid)
{
	char stat[512] = "", *state;
	int fd = open_of(pid, "stat", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof stat - 1);
	close(fd);
	state = n > 0 ? strrchr(stat, ')') : NULL;
	return state && state[2] != 'Z' && state[2] != 'X';
}

enum whose { PAYLOAD, RUNTIME, ENDED };

// Memory is gone both when another program took the place of this one and in
// the moment before a process that ends counts as ended. Only in the first case
// is there memory to be opened anew. On a busy machine either takes its time: with
// 20 ms of patience one payload of 500 was taken for the runtime.
static enum whose after(int pid)
{
	for (int i = 0; i < 5000 && lives(pid); i++) {
		uint64_t got = 0;
		int mem = open_of(pid, "mem", O_RDONLY);
		ssize_t n = mem < 0 ? -1 : pread(mem, &got, sizeof got, (off_t)(uintptr_t)&mark);
		close(mem);
		if (n == sizeof got && got == 0x7361676573616765)
			return RUNTIME;
		usleep(100);
	}
	return lives(pid) ? RUNTIME : ENDED;
}

// An open mem belongs to one program and stays with it over execve. The payload
// may not be mapped yet, so it is asked again; a program that is gone while its
// process lives on was replaced by the payload, and so was the runtime.
static enum whose whose_memory(int mem, int pid)
{
	for (int i = 0; i < 5000; i++) {
		uint64_t got = 0;
		ssize_t n = pread(mem, &got, sizeof got, (off_t)(uintptr_t)&mark);
		if (n == sizeof got && got == 0x7361676573616765)
			return PAYLOAD;
		if (n == 0)
			return after(pid);
		usleep(100);
	}
	return RUNTIME;
}

static void attack_memory(int pid, int *done)
{
	uint64_t same = mark;
	int mem = open_of(pid, "mem", O_RDWR);
	if (mem < 0)
		return;
	switch (whose_memory(mem, pid)) {
	case PAYLOAD: // Nothing to gain, and the attack works: shown by writing.
		if (pwrite(mem, &same, sizeof same, (off_t)(uintptr_t)&mark) == sizeof same) {
			payload++;
			*done = 1;
		}
		break;
	case RUNTIME:
		runtime++;
		break;
	case ENDED:
		break;
	}
	close(mem);
}

// The binary of the runtime, and whatever files it has open: the payload has
// none above its standard ones, and its own binary is busy.
static void attack_files(int pid)
{
	char name[16];
	int fd = open_of(pid, "exe", O_WRONLY);
	if (fd >= 0) {
		exe++;
		close(fd);
	}
	for (int i = 3; i < 12; i++) {
		snprintf(name, sizeof name, "fd/%d", i);
		fd = open_of(pid, name, O_RDONLY | O_NONBLOCK);
		if (fd < 0)
			continue;
		fds++;
		close(fd);
	}
}

static void attack_trace(int pid)
{
	int mem;
	if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0)
		return;
	mem = open_of(pid, "mem", O_RDONLY);
	// There is none to open of one that is on its way out, too.
	if ((mem < 0 ? after(pid) : whose_memory(mem, pid)) == RUNTIME)
		traced++;
	close(mem);
	// Only what stands still can be let go of.
	if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0 && waitpid(pid, NULL, __WALL) == pid)
		ptrace(PTRACE_DETACH, pid, 0, 0);
}

static void attack(int pid, int tracing)
{
	int done = 0;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d", pid);
	seen++;
	while (access(path, F_OK) == 0) {
		attack_memory(pid, &done);
		attack_files(pid);
		if (tracing && !done)
			attack_trace(pid);
		if (done)
			return;
	}
}

static int is_over(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	return poll(&in, 1, 0) > 0;
}

// A pid that is higher than all before is new; they do not wrap in one test.
static void hunt(int tracing)
{
	int last = getpid();
	puts("ready");
	fflush(stdout);
	while (!is_over()) {
		DIR *d = opendir("/proc");
		struct dirent *e;
		while ((e = readdir(d))) {
			int pid = atoi(e->d_name);
			if (pid > last) {
				last = pid;
				attack(pid, tracing);
			}
		}
		closedir(d);
	}
	printf("seen %d payload %d runtime %d exe %d fd %d trace %d\n", seen, payload, runtime, exe, fds, traced);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "payload")) {
		usleep(mark ? 10000 : 0);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "wait"))
		return mark ? pause() : 0;
	hunt(argc > 1 && !strcmp(argv[1], "trace"));
	return 0;
}
