for n in $(seq 24); do echo "int f$n(void) { return $n; }" >"f$n.c"; done
cat >Makefile <<'M'
objects := $(patsubst %.c,%.o,$(wildcard f*.c))
libf.a: $(objects)
	ar rcs $@ $^
M
make --jobs=4 CFLAGS=-O2
[ "$(ar t libf.a | wc -l)" = 24 ]
