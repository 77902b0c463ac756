#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int *block = malloc(8 * sizeof *block);

	(void)argv;
	block[argc % 8] = 1;
	printf("%d\n", block[argc % 8]);
	free(block);
	return 0;
}
