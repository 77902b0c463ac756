cc -g -o hello /workload/gcc/hello.c
gdb --batch -ex 'break add' -ex run -ex backtrace -ex 'print first' ./hello >out 2>&1 || true
cat out
grep -q '#1 .* main' out
