gcc -O2 -pthread -o threads /workload/gcc/threads.c
./threads
