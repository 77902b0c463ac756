#!/bin/sh
# Makes the root trees that tests and benchmarks run, as plain tar files in
# $CACHE/rootfs: no registry is needed, and nothing of them is in git.
#
#   build.sh [busybox|debian|hello|workload]...    without a name all but the last
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${SAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sage}/rootfs")

# The same input must give the same bytes: image ids are digests of these.
archive() {
	tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$2" .
}

make_busybox() {
	box=$(command -v busybox)
	mkdir -p "$tmp/root/bin" && cd "$tmp/root"
	mkdir -p dev etc home proc root run sys tmp usr/bin usr/sbin sbin lib var/lib var/spool/mail var/www
	chmod 1777 tmp && chmod 700 root
	cp "$box" bin/busybox
	for applet in $("$box" --list); do
		[ "$applet" = busybox ] || ln -s busybox "bin/$applet"
	done
	ln -s ../../bin/env usr/bin/env
	ln -s ../run var/run
	printf '%s\n' root:x:0:0:root:/root:/bin/sh daemon:x:1:1:daemon:/usr/sbin:/bin/false \
		www-data:x:33:33:www-data:/var/www:/bin/false \
		nobody:x:65534:65534:nobody:/home:/bin/false >etc/passwd
	printf '%s\n' root:x:0: daemon:x:1: tty:x:5: www-data:x:33: users:x:100: nogroup:x:65534: >etc/group
	printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' >etc/nsswitch.conf
	archive "$tmp/root" "$1"
}

# debian OUT OPTION...: Debian's smallest tree that has apt, and what options add.
debian() {
	file=$1
	shift
	# The mirror that this machine's own apt uses, not a built-in one.
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
	# A quarter of the tree is text that no test reads and every test unpacks.
	mmdebstrap --quiet --variant=minbase --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' "$@" \
		bookworm "$file" "${mirror:-http://deb.debian.org/debian}"
}

make_debian() {
	debian "$1"
}

# Tools and servers that people run, for integration/workload.
make_workload() {
	# Some packages' scripts fail where the folders of manual pages are missing.
	# No database yet: who wants one makes it.
	cat >"$tmp/essential" <<-'HOOK'
		mkdir -p "$1/usr/share/man/man1" "$1/usr/share/man/man7" "$1/usr/share/man/man8" "$1/etc/postgresql-common"
		echo create_main_cluster = false >"$1/etc/postgresql-common/createcluster.conf"
	HOOK
	# A user who is not root, and who may become root if setuid programs may.
	cat >"$tmp/customize" <<-'HOOK'
		chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 worker
		echo 'worker ALL=(ALL) NOPASSWD: ALL' >"$1/etc/sudoers.d/worker"
	HOOK
	chmod 755 "$tmp/essential" "$tmp/customize"
	debian "$1" --include="$(grep -v '^#' "$here/workload.packages" | paste -s -d ,)" \
		--dpkgopt='path-exclude=/usr/lib/jvm/*/jmods/*' --dpkgopt='path-exclude=/usr/share/go-*/test/*' \
		--dpkgopt='path-exclude=/usr/lib/rustlib/*.rlib' --dpkgopt='path-exclude=/usr/lib/x86_64-linux-gnu/rustlib/*.rlib' \
		--essential-hook="$tmp/essential" --customize-hook="$tmp/customize"
}

make_hello() {
	mkdir "$tmp/root"
	cc -static -Os -s -o "$tmp/root/hello" "$here/hello.c"
	archive "$tmp/root" "$1"
}

# A tree is made again only if what it is made from has changed.
stamp() {
	{
		cat "$here/build.sh"
		case $1 in
		busybox) cat "$(command -v busybox)" ;;
		hello) cat "$here/hello.c" ;;
		workload) cat "$here/workload.packages" ;;
		esac
	} | sha256sum | cut -d' ' -f1
}

mkdir -p "$out"
exec 9>"$out/.lock"
flock 9
trap 'rm -rf "$out"/.tmp.*' EXIT
trap 'exit 130' INT TERM

[ $# -gt 0 ] || set -- busybox hello debian
for name; do
	case $name in
	busybox | debian | hello | workload) ;;
	*)
		echo "rootfs: no tree is called '$name'; there are: busybox debian hello workload" >&2
		exit 1 ;;
	esac
	want=$(stamp "$name")
	if [ -f "$out/$name.tar" ] && [ "$(cat "$out/.$name.stamp" 2>/dev/null)" = "$want" ]; then
		continue
	fi
	echo "rootfs: making $name.tar" >&2
	tmp=$(mktemp -d "$out/.tmp.XXXXXX")
	(umask 022 && "make_$name" "$tmp/$name.tar") 9>&-
	mv -f "$tmp/$name.tar" "$out/$name.tar"
	echo "$want" >"$out/.$name.stamp"
	rm -rf "$tmp"
done
