#!/bin/sh
# Makes .build/libcontainer: the pinned runc module from the Go module cache,
# hash-checked, with libcontainer.patch applied. go.mod replaces the module by
# that folder, so a checkout in which this has not run does not build.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
out=$top/.build/libcontainer
read -r module version want <"$here/version"

# Two builds in one checkout must not meet in the folder.
mkdir -p "$top/.build"
exec 9>"$top/.build/lock"
flock 9

stamp=$(cat "$here/version" "$here/libcontainer.patch" "$here/apply.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/.stamp" 2>/dev/null || true)" = "$stamp" ]; then
	exit 0
fi

# Outside the module: with the folder missing, no go command works inside it.
cd /
GOFLAGS=-mod=mod go mod download "$module@$version"
cache=$(go env GOMODCACHE)/$module@$version

# The h1 of go.sum (golang.org/x/mod/sumdb/dirhash), taken over what lies in
# the cache now: the go command checks it at download only.
got=h1:$(cd "$cache" && find . -type f | sed 's#^\./##' | LC_ALL=C sort |
	while IFS= read -r f; do
		printf '%s  %s@%s/%s\n' "$(sha256sum <"$f" | cut -d' ' -f1)" "$module" "$version" "$f"
	done | sha256sum | cut -d' ' -f1 | tr a-f A-F | fold -w2 |
	while IFS= read -r byte; do printf '%b' "\\0$(printf '%03o' "0x$byte")"; done | base64)
if [ "$got" != "$want" ]; then
	echo "patch: $cache has hash $got, want $want: run 'go clean -modcache' and try again" >&2
	exit 1
fi

tmp=$top/.build/libcontainer.tmp # alone here, by the lock
rm -rf "$tmp" "$out"
mkdir "$tmp"
(cd "$cache" && tar -cf - LICENSE go.mod go.sum libcontainer internal types) | tar -xf - -C "$tmp"
chmod -R u+w "$tmp"
# --fuzz=0: a patch that no longer fits the pinned version must fail here.
patch -d "$tmp" -p1 --fuzz=0 --silent --no-backup-if-mismatch <"$here/libcontainer.patch"
echo "$stamp" >"$tmp/.stamp"
mv "$tmp" "$out"
