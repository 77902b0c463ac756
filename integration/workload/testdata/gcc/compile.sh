gcc -O2 -Wall -Werror -o hello /workload/gcc/hello.c
[ "$(./hello)" = 42 ]
gcc -O2 -static -flto -o static /workload/gcc/hello.c
[ "$(./static)" = 42 ]
gcc -shared -fPIC -o libadd.so /workload/gcc/hello.c
nm libadd.so | grep -q ' T add'
