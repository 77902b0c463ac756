#!/bin/sh
# Builds the real programs that sage is tested against and compared with, each
# from the small module in a folder here, into $CACHE/peers/bin.
#
#   build.sh [NAME...]    without a name all that the engines ring needs
set -eu

here=$(cd "$(dirname "$0")" && pwd)
peers=$(realpath -m "${SAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sage}/peers")
toolchain=$(go env GOVERSION)
all='runc containerd runc-shim moby cni nerdctl cri-tools'
# For the Kubernetes ring alone, which take longer than all the others together,
# and for the bench.
more='kubernetes etcd smokescreen'

# What a peer is made of: the folder of its module, packages (a trailing
# ".test" means its test binary), where they go under bin, and the flags its
# own project releases it with. A peer built with less care would flatter
# every comparison.
recipe() {
	folder=$1 into='' cgo=0 mode=default tags='' ldflags='-s -w'
	case $1 in
	runc)
		# As its release is made, but for libpathrs, which no Debian has.
		cgo=1 mode=pie tags='seccomp urfave_cli_no_docs netgo osusergo'
		ldflags="$ldflags -linkmode external -extldflags -static-pie -X main.gitCommit=v1.5.3"
		packages=github.com/opencontainers/runc ;;
	containerd)
		root=github.com/containerd/containerd/v2 tags='urfave_cli_no_docs osusergo netgo static_build'
		ldflags="$ldflags -X $root/version.Version=v2.4.2"
		packages="$root/cmd/containerd $root/cmd/ctr" ;;
	runc-shim)
		root=github.com/containerd/containerd/v2 folder=containerd tags='urfave_cli_no_docs no_grpc'
		ldflags="$ldflags -X $root/version.Version=v2.4.2"
		packages=$root/cmd/containerd-shim-runc-v2 ;;
	moby)
		# Unset, the version is "library-import", which is no number to a client.
		root=github.com/moby/moby/v2 tags='netgo osusergo static_build nri_no_wasm'
		ldflags="$ldflags -X $root/dockerversion.Version=29.0.0-beta.24"
		packages="$root/cmd/dockerd $root/cmd/docker-proxy" ;;
	cri-tools)
		root=sigs.k8s.io/cri-tools
		ldflags="$ldflags -X $root/pkg/version.Version=v1.37.0"
		packages="$root/cmd/crictl $root/cmd/critest.test" ;;
	cni)
		root=github.com/containernetworking/plugins into=cni/
		ldflags="$ldflags -X $root/pkg/utils/buildversion.BuildVersion=v1.10.0"
		root=$root/plugins
		packages="$root/main/bridge $root/main/loopback $root/ipam/host-local $root/meta/portmap $root/meta/firewall" ;;
	nerdctl)
		root=github.com/containerd/nerdctl/v2
		ldflags="$ldflags -X $root/pkg/version.Version=v2.1.3"
		packages=$root/cmd/nerdctl ;;
	kubernetes)
		# The first tag is its release's too: it lets the linker drop what nothing calls.
		root=k8s.io/component-base/version tags='grpcnotrace netgo osusergo'
		ldflags="$ldflags -X $root.gitVersion=v1.37.2 -X $root.gitMajor=1 -X $root.gitMinor=37"
		root=k8s.io/kubernetes/cmd
		packages="$root/kubelet $root/kube-apiserver $root/kubectl" ;;
	etcd)
		tags='grpcnotrace netgo osusergo'
		packages=github.com/sage-sandbox/sage/integration/peers/etcd ;;
	smokescreen)
		packages=github.com/stripe/smokescreen ;;
	*)
		echo "peers: no peer is called '$1'; there are: $all $more" >&2
		return 1 ;;
	esac
}

stamp() {
	{
		find "$here/$folder" -maxdepth 1 -name 'go.*' -o -maxdepth 1 -name '*.go' | LC_ALL=C sort | xargs cat
		echo "$toolchain $into $cgo $mode $tags $ldflags $packages"
	} | sha256sum | cut -d' ' -f1
}

# Present: made from exactly this recipe, and nobody has removed a program.
present() {
	[ "$(cat "$peers/stamp/$1" 2>/dev/null)" = "$2" ] || return 1
	for package in $packages; do
		name=${package##*/}
		[ -x "$peers/bin/$into${name%.test}" ] || return 1
	done
}

build() { # go command, its own flags, packages
	verb=$1
	shift
	GOFLAGS=-buildvcs=false GOWORK=off CGO_ENABLED=$cgo go "$verb" -trimpath -buildmode="$mode" -tags "$tags" -ldflags "$ldflags" "$@"
}

compile() {
	cd "$here/$folder"
	programs='' tests=''
	for package in $packages; do
		case $package in
		*.test) tests="$tests ${package%.test}" ;;
		*) programs="$programs $package" ;;
		esac
	done
	# Programs in one go: most of what they are made of, they share.
	[ -z "$programs" ] || build build -o "$tmp/" $programs
	for package in $tests; do
		build test -c -o "$tmp/${package##*/}" "$package"
	done
}

mkdir -p "$peers/bin/cni" "$peers/stamp"
trap 'rm -rf "$peers/tmp.$$".*' EXIT
trap 'exit 130' INT TERM

[ $# -gt 0 ] || set -- $all
for peer; do
	recipe "$peer"
	want=$(stamp)
	# One lock each: the big ones may be built beside what the others are needed for.
	exec 9>"$peers/stamp/$peer.lock"
	flock 9
	! present "$peer" "$want" || continue
	echo "peers: building $peer" >&2
	# Beside bin, so that each mv is a rename and a running peer keeps its file.
	tmp=$(mktemp -d "$peers/tmp.$$.XXXXXX")
	(compile) 9>&-
	mv -f "$tmp"/* "$peers/bin/$into"
	echo "$want" >"$peers/stamp/$peer"
done
