#!/bin/sh
# Lints the checkout: builds the pinned golangci-lint into the cache when there
# is none, then formatting, go vet, the linters, each with and without the
# build tags of the test rings, since a file behind a tag is otherwise not read.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rings=kernel,engines,vm,k8s,qemu
cache=${SAGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sage}/tools
lint=$cache/golangci-lint
export GOLANGCI_LINT_CACHE="$cache/lint-cache"

# The Go version counts: a linter reads the export data of the compiler that
# built it, and refuses newer.
stamp=$(go env GOVERSION; cat "$here/go.mod" "$here/go.sum")
stamp=$(printf %s "$stamp" | sha256sum)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -x "$lint" ] || [ "$(cat "$cache/stamp" 2>/dev/null || true)" != "$stamp" ]; then
	echo "lint: building golangci-lint, which takes some minutes the first time" >&2
	CGO_ENABLED=0 go -C "$here" build -trimpath -ldflags '-s -w' -o "$lint" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	echo "$stamp" >"$cache/stamp"
fi

flock -u 9

# Every step runs, so that one call shows all there is to mend.
status=0
step() {
	echo "lint: $*" >&2
	"$@" || status=1
}
step "$lint" fmt --diff
step go vet ./...
step go vet "-tags=$rings" ./...
step "$lint" run ./...
step "$lint" run "--build-tags=$rings" ./...
# What will serve a Mac must build for one from the start.
step env GOOS=darwin CGO_ENABLED=0 go vet ./internal/errcode ./spec
exit "$status"
