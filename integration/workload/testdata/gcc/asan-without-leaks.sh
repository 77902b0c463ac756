gcc -g -fsanitize=address,undefined -o leak /workload/gcc/leak.c
ASAN_OPTIONS=detect_leaks=0 ./leak
