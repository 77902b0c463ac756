gcc -g -fsanitize=address,undefined -o leak /workload/gcc/leak.c
./leak
