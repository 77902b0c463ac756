#include <stdio.h>

__attribute__((noinline)) int add(int first, int second)
{
	return first + second;
}

int main(void)
{
	printf("%d\n", add(20, 22));
	return 0;
}
