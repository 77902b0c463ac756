// Prints every descriptor of the process, one a line: number, then target.
// The folder being read is left out.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
	DIR *dir = opendir("/proc/self/fd");
	if (!dir) {
		perror("/proc/self/fd");
		return 1;
	}
	for (struct dirent *e; (e = readdir(dir));) {
		char target[4096];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
		if (n < 0 || atoi(e->d_name) == dirfd(dir))
			continue;
		target[n] = 0;
		printf("%s %s\n", e->d_name, target);
	}
	return 0;
}
