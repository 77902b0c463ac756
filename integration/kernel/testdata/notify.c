// Sends its argument to $NOTIFY_SOCKET, as sd_notify(3) does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv) {
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	if (!path || argc != 2 || strlen(path) >= sizeof to.sun_path)
		return 2;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0 || sendto(fd, argv[1], strlen(argv[1]), 0, (struct sockaddr *)&to, sizeof to) < 0) {
		perror(path);
		return 1;
	}
	return 0;
}
