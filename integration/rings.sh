#!/bin/sh
# Runs every ring of tests that this machine can run, one after the other, and
# closes with a table. Exits 1 if one failed, or in CI if one did not run that
# could have.
set -u

cd "$(dirname "$0")/.." || exit 1
table= status=0

ring() { # NAME COMMAND...
	name=$1
	shift
	printf '\n=== ring %s: %s\n' "$name" "$*"
	started=$(date +%s)
	if "$@"; then result=passed; else result=FAILED status=1; fi
	table="$table$(printf '%-12s %-8s %4d s' "$name" "$result" $(($(date +%s) - started)))
"
}

skip() { # NAME REASON
	table="$table$(printf '%-12s not run: %s' "$1" "$2")
"
	[ -z "${CI:-}" ] || status=1
}

# What the last ring needs takes minutes to build, while the others mostly wait.
big=
if [ "$(id -u)" -eq 0 ] && sh integration/install.sh build >/dev/null; then
	nice -n 19 sh integration/peers/build.sh etcd kubernetes >/dev/null 2>&1 &
	big=$!
fi

ring unit make --no-print-directory test-unit
if [ "$(id -u)" -eq 0 ]; then
	ring kernel make --no-print-directory test-kernel
	ring workload make --no-print-directory test-workload
	ring engines make --no-print-directory test-engines
	ring runc-suite make --no-print-directory runc-suite SUITE=-subset PROFILE=compat,sage
	[ -z "$big" ] || wait "$big" # where it failed, the ring says why
	ring vm make --no-print-directory test-vm
	ring k8s make --no-print-directory test-k8s
else
	for name in kernel workload engines runc-suite vm k8s; do
		skip $name 'needs root'
	done
fi
printf '\nrings\n%s' "$table"
exit $status
