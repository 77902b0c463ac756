// reopen N: waits for N processes whose program is neither this one nor
// Busybox, holds the file of each, and asks for it again for writing when
// nobody executes it any more. Prints "ready", then a line for each: what the
// file is called and what the kernel said. The runtime's binary, executed by
// "#!/proc/self/exe", waits for a reader of the FIFO /block meanwhile.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(const char *path, const char *other)
{
	struct stat a, b;
	return stat(path, &a) || stat(other, &b) || (a.st_dev == b.st_dev && a.st_ino == b.st_ino);
}

static int hold(int pid, char *name, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	ssize_t n = readlink(path, name, size - 1);
	if (n < 0 || is_file(path, "/proc/self/exe") || is_file(path, "/bin/busybox"))
		return -1;
	name[n] = 0;
	return open(path, O_RDONLY);
}

static void reopen(int fd, const char *name)
{
	char path[64];
	int got = -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (int i = 0; i < 1000 && (got = open(path, O_WRONLY)) < 0 && errno == ETXTBSY; i++)
		usleep(1000);
	printf("%s: %s\n", name, got < 0 ? strerror(errno) : "writable");
	fflush(stdout);
	if (got >= 0)
		close(got);
}

static int catch_one(int after)
{
	char name[256];
	for (;;) {
		DIR *d = opendir("/proc");
		struct dirent *e;
		while ((e = readdir(d))) {
			int pid = atoi(e->d_name), fd = pid > after ? hold(pid, name, sizeof name) : -1;
			if (fd < 0)
				continue;
			closedir(d);
			close(open("/block", O_RDONLY));
			for (int i = 0; i < 5000 && kill(pid, 0) == 0; i++)
				usleep(1000);
			reopen(fd, name);
			close(fd);
			return pid;
		}
		closedir(d);
	}
}

int main(int argc, char **argv)
{
	int last = getpid();
	puts("ready");
	fflush(stdout);
	for (int n = argc > 1 ? atoi(argv[1]) : 1; n > 0; n--)
		last = catch_one(last);
	return 0;
}
