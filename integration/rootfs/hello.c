/* The whole of the hello image: one static program, no shell, no libc files. */
#include <stdio.h>

int main(void)
{
	return puts("Hello from sage") == EOF;
}
