// Frees what it allocates, so that LeakSanitizer has nothing to say.
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	void *p = malloc(100);
	printf("%s\n", p ? "clean" : "no memory");
	free(p);
	return 0;
}
