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

ring unit make --no-print-directory test-unit
if [ "$(id -u)" -eq 0 ]; then
	ring kernel make --no-print-directory test-kernel
	ring workload make --no-print-directory test-workload
	ring engines make --no-print-directory test-engines
	ring runc-suite make --no-print-directory runc-suite SUITE=-subset PROFILE=compat,sage
	ring vm make --no-print-directory test-vm
else
	for name in kernel workload engines runc-suite vm; do
		skip $name 'needs root'
	done
fi
# No skip(): it passes by hand, and with it CI takes longer than 45 minutes on two
# processors without KVM.
table="${table}k8s          not run: make test-k8s
"
printf '\nrings\n%s' "$table"
exit $status
