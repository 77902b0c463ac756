// doors PLACE: fills PLACE in every way there is until the kernel says that there
// is no room, and takes it away again. One line each: place, way, amount, what
// was free before (by statvfs), errno. Amounts and room are bytes; for names they
// are inodes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MANY = 100000, FILES = 400 };
static const char *place;
static char buf[64 << 10];

static const char *name(int i)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/door-%d", place, i);
	return path;
}

static int make(int i) { return open(name(i), O_RDWR | O_CREAT, 0644); }

static long long room(int inodes)
{
	struct statvfs s;
	if (statvfs(place, &s))
		return -1;
	return inodes ? (long long)s.f_ffree : (long long)s.f_bfree * (long long)s.f_frsize;
}

static int full(void) { return errno == ENOSPC || errno == EDQUOT; }

// Sizes get smaller at the end, so that what is left is no more than a block. A
// file that may not grow has a next one (RLIMIT_FSIZE). All are left open.
static int held[FILES], holds;
static long long fill(int unlinked)
{
	long long sum = 0;
	size_t size = sizeof(buf);
	for (int i = 0; i < FILES; i++) {
		int fd = make(i);
		if (fd < 0)
			return sum;
		if (unlinked)
			unlink(name(i));
		held[holds++] = fd;
		for (;;) {
			ssize_t n = write(fd, buf, size);
			if (n > 0)
				sum += n;
			else if (n < 0 && full() && size > 4096) {
				fsync(fd); // gives back what was set aside for it to grow
				size = 4096;
			} else if (n < 0 && errno == EFBIG)
				break;
			else
				return sum;
		}
	}
	return sum;
}

static long long door_write(void) { return fill(0); }
static long long door_unlinked(void) { return fill(1); }

// Blocks with as much of nothing between them.
static long long door_sparse(void)
{
	long long sum = 0;
	for (int i = 0; i < FILES; i++) {
		int fd = make(i), e;
		if (fd < 0)
			return sum;
		for (off_t at = 0;; at += 64 << 10) {
			ssize_t n = pwrite(fd, buf, 16 << 10, at);
			if (n < 0)
				break;
			sum += n;
			fdatasync(fd);
		}
		e = errno;
		close(fd);
		errno = e;
		if (e != EFBIG)
			return sum;
	}
	return sum;
}

static long long door_fallocate(void)
{
	long long sum = 0;
	int fd = make(0);
	while (fallocate(fd, FALLOC_FL_KEEP_SIZE, sum, 16 << 10) == 0)
		sum += 16 << 10;
	int e = errno;
	close(fd);
	errno = e;
	return sum;
}

static long long door_reflink(void)
{
	long long sum = 0;
	int from = make(0), e;
	for (int i = 0; i < 4; i++)
		if (write(from, buf, sizeof(buf)) < 0)
			return -1;
	fsync(from);
	sum = 4 * (long long)sizeof(buf);
	for (int i = 1; i < FILES; i++) {
		int to = make(i);
		if (to < 0 || ioctl(to, FICLONE, from)) {
			e = errno;
			close(to);
			close(from);
			errno = e;
			return sum;
		}
		sum += 4 * (long long)sizeof(buf);
		close(to);
	}
	errno = 0;
	return sum;
}

static long long door_xattr(void)
{
	long long sum = 0;
	errno = 0;
	for (int i = 0; i < FILES; i++) {
		int fd = make(i);
		if (fd < 0)
			return sum;
		close(fd);
		if (setxattr(name(i), "user.door", buf, 60000, 0))
			return sum;
		sum += 60000;
	}
	return sum;
}

static long long door_files(void)
{
	for (int i = 0; i < MANY; i++) {
		int fd = make(i);
		if (fd < 0)
			return i;
		close(fd);
	}
	return MANY;
}

static long long door_directories(void)
{
	for (int i = 0; i < MANY; i++)
		if (mkdir(name(i), 0755))
			return i;
	return MANY;
}

static long long door_symlinks(void)
{
	for (int i = 0; i < MANY; i++)
		if (symlink("nowhere", name(i)))
			return i;
	return MANY;
}

static void clear(void)
{
	while (holds > 0)
		close(held[--holds]);
	for (int i = 0; i < MANY; i++)
		if (unlink(name(i)) && rmdir(name(i)) && i > FILES)
			return;
}

static const struct {
	const char *name;
	long long (*fill)(void);
	int inodes;
} doors[] = {
	{"write", door_write, 0}, {"unlinked", door_unlinked, 0}, {"sparse", door_sparse, 0},
	{"fallocate", door_fallocate, 0}, {"reflink", door_reflink, 0}, {"xattr", door_xattr, 0},
	{"files", door_files, 1}, {"directories", door_directories, 1}, {"symlinks", door_symlinks, 1},
};

int main(int argc, char **argv)
{
	signal(SIGXFSZ, SIG_IGN);
	memset(buf, 'x', sizeof(buf));
	for (int i = 1; i < argc; i++) {
		place = argv[i];
		long long bytes = room(0), inodes = room(1);
		for (size_t d = 0; d < sizeof(doors) / sizeof(doors[0]); d++) {
			long long before = room(doors[d].inodes);
			errno = 0;
			long long got = doors[d].fill();
			int e = errno;
			printf("%s %s %lld %lld %s\n", place, doors[d].name, got, before, e == ENOSPC ? "ENOSPC" : e == EDQUOT ? "EDQUOT" : strerrorname_np(e));
			fflush(stdout);
			clear();
			sync();
			// The kernel frees what was removed a little later.
			for (int n = 0; n < 100 && (room(0) < bytes || room(1) < inodes); n++)
				usleep(20000);
		}
	}
	return 0;
}
