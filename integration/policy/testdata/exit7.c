// Ends with status 7 by the only call that it makes.
void _start(void)
{
#ifdef __x86_64__
	__asm__ volatile("mov $231, %eax; mov $7, %edi; syscall");
#else
	__asm__ volatile("mov x8, #94; mov x0, #7; svc #0");
#endif
	__builtin_unreachable();
}
