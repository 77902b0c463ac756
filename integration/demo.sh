#!/bin/sh
# One container's life, with nothing but sage-runtime and a static busybox.
set -eu

sage=$(cd "$(dirname "$0")/.." && pwd)/bin/sage-runtime
work=$(mktemp -d)
id=sage-demo-$$
cleanup() {
	"$sage" --root "$work/state" delete --force "$id" || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM # or dash would not run the other

say() { printf '\n$ %s\n' "$*"; }
run() {
	say "sage-runtime $*"
	"$sage" --root "$work/state" "$@"
}

mkdir -p "$work/bundle/rootfs/bin"
cd "$work/bundle"
cp /bin/busybox rootfs/bin/
for name in sh echo id sleep hostname ps; do
	ln -s busybox "rootfs/bin/$name"
done

say 'sage-runtime --version'
"$sage" --version
run spec
# The starter bundle wants a terminal and a shell; ours is to run by itself.
sed -i -e 's/"terminal": true/"terminal": false/' -e 's/"sh"/"sh", "-c", "echo hello from pid $$; exec sleep 100"/' config.json

run create "$id"
run state "$id" && echo
run start "$id"
sleep 0.2
run exec "$id" sh -c 'echo "exec: $(id), on $(hostname)"; exec ps'
run list
run kill "$id" KILL
tries=50
until "$sage" --root "$work/state" state "$id" | grep -q '"stopped"' || [ $((tries -= 1)) -eq 0 ]; do sleep 0.1; done
run delete "$id"
run list
