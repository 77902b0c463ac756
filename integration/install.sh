#!/bin/sh
# Installs the Debian or Ubuntu packages that a purpose needs and that are not
# there yet. Says what to install where it cannot.
#
#   install.sh build|demo|test|vm
set -eu

packages='gcc libc6-dev libseccomp-dev pkg-config make patch git ca-certificates'
case ${1-} in
build) ;;
demo) packages="$packages busybox-static" ;;
test)
	packages="$packages busybox-static curl bats jq gawk uidmap xz-utils mmdebstrap debian-archive-keyring iproute2 iptables procps util-linux bsdutils
		podman conmon criu kmod tar udev xfsprogs" ;;
# apparmor: its parser is what makes dockerd confine containers, as on a Debian
# host. zstd and xz: kernel modules come packed.
vm) packages="$packages busybox-static curl qemu-system-x86 kmod xfsprogs apparmor xz-utils zstd iproute2 iptables procps util-linux
	systemd dbus" ;;
*)
	echo "install: saw '${1-}', want build, demo, test or vm" >&2
	exit 2 ;;
esac

# Not in every release; without it the checkpoint tests fail with runc, too.
case $packages in
*criu*) apt-cache show criu >/dev/null 2>&1 || packages=$(echo "$packages" | sed 's/criu//') ;;
esac

missing=
for p in $packages; do
	dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done

if [ -n "$missing" ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "install: please install:$missing" >&2
		exit 1
	fi
	echo "install:$missing" >&2
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $missing; } >"$log" 2>&1; then
		cat "$log" >&2
		exit 1
	fi
fi

# A Docker client, without the daemon that Debian 12 has in the same package
# and would start.
if [ "$1" = test ] && ! command -v docker >/dev/null; then
	client=${SAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sage}/client
	if [ ! -x "$client/docker" ]; then
		tmp=$(mktemp -d)
		trap 'rm -rf "$tmp" ${log:+"$log"}' EXIT
		name=docker-cli
		apt-cache show $name >/dev/null 2>&1 || name=docker.io
		(cd "$tmp" && apt-get update -qq && apt-get download -qq $name && dpkg-deb -x $name*.deb .) >&2
		mkdir -p "$client"
		mv "$tmp/usr/bin/docker" "$client/docker"
	fi
fi

if ! command -v go >/dev/null; then
	echo "install: no go command in PATH: install Go 1.21 or later (https://go.dev/dl); it fetches the release that go.mod names by itself" >&2
	exit 1
fi
