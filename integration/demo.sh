#!/bin/sh
# One sandboxed container's life, with nothing but sage-runtime and a static
# busybox: what the policy will be, what it forbids, and the kernel's own word
# that it is in force. Then another that may reach one host by name.
set -eu

sage=$(cd "$(dirname "$0")/.." && pwd)/bin/sage-runtime
work=$(mktemp -d)
id=sage-demo-$$

# Hard limits, which sage wants unless the host says otherwise, need a file system
# with quotas. A host that "sage-runtime setup" has prepared has one, and its file
# says where.
settings=$(grep -s -e '^linux_quota_mount:' -e '^linux_cgroup_root:' -e '^quota:' /etc/sage/config.yaml) || true
mount=$(echo "$settings" | sed -n 's/^linux_quota_mount: *//p')
hard=false bundle=$work/bundle
if [ -n "$mount" ]; then
	hard=true bundle=$(mktemp -d "$mount/sage-demo-XXXXXX")
fi
cleanup() {
	"$sage" --config "$work/host.yaml" --root "$work/state" delete --force "$id" || true
	exec 3>&- # the end of the servers' input ends them
	rm -rf "$work" "$bundle"
}
trap cleanup EXIT
trap 'exit 130' INT TERM # or dash would not run the other

say() { printf '\n$ %s\n' "$*"; }
run() {
	say "sage-runtime $*"
	"$sage" --config "$work/host.yaml" --root "$work/state" "$@"
}
# refused COMMAND...: fails the demo if the container may do that.
refused() {
	say "sage-runtime exec $id $*"
	if "$sage" --config "$work/host.yaml" --root "$work/state" exec "$id" "$@"; then
		echo "demo: the container was let do that" >&2
		exit 1
	fi
}

# attest NAME: what the kernel says, and of it the beginning and the limits.
attest() {
	say "sage-runtime attest $1"
	"$sage" --config "$work/host.yaml" --root "$work/state" attest "$1" >"$work/attest.json"
	awk -F'": ' '
		$1 ~ /"pid$/ { sub(/,$/, "", $2); pid = $2 }
		$1 ~ /"field$/ { field = $2 }
		$1 ~ /"got$/ { got = $2 }
		$1 ~ /"ok$/ && field { if (++n <= 16 || field ~ /memory|pids|cpu|disk|egress|guard/) print pid, field, got, "ok: " $2; field = "" }
	' "$work/attest.json" | tr -d '",'
	echo "... $(grep -c '"ok": true' "$work/attest.json") lines are ok, $(grep -c '"ok": false' "$work/attest.json" || true) are not"
	[ $hard = true ] || echo "limits: soft, as the host's file says: sampled, and the container ended when it is above them"
}

# gone NAME: ends and deletes it.
gone() {
	run kill "$1" KILL
	tries=50
	until "$sage" --root "$work/state" state "$1" | grep -q '"stopped"' || [ $((tries -= 1)) -eq 0 ]; do sleep 0.1; done
	run delete "$1"
	run list
}

mkdir -p "$bundle/rootfs/bin"
cd "$bundle"
cp /bin/busybox rootfs/bin/
for name in sh cat echo grep hostname id mount ping ps sleep touch unshare; do
	ln -s busybox "rootfs/bin/$name"
done

cat >"$work/host.yaml" <<END
version: 1
default_profile: sage
$settings
profiles:
  sage:
    defaults:
      resources: {require_hard_limits: $hard}
END

say 'sage-runtime --version'
"$sage" --version
say "cat $work/host.yaml"
cat "$work/host.yaml"
run spec
# The starter bundle wants a terminal and a shell; ours is to run by itself.
sed -i -e 's/"terminal": true/"terminal": false/' -e 's/"sh"/"sh", "-c", "echo hello from pid $$; exec sleep 100"/' config.json

run policy
run create "$id"
run state "$id" && echo
run start "$id"
sleep 0.2
run exec "$id" sh -c 'echo "exec: $(id), on $(hostname)"; grep -e CapEff -e NoNewPrivs -e Seccomp_ /proc/self/status; exec ps'
refused mount -t tmpfs none /tmp
refused touch /bin/more
refused unshare -U true
refused ping -c 1 127.0.0.1
run list

attest "$id"
gone "$id"

say 'a web server and a resolver on loopback, which knows every name'
mkfifo "$work/stop" "$work/ports"
"$(dirname "$sage")/demo" <"$work/stop" >"$work/ports" &
exec 3>"$work/stop"
read -r web dns <"$work/ports"

# The addresses of the host itself are closed to every container; here they are
# all there is.
cat >"$work/host.yaml" <<END
version: 1
default_profile: agent
audit_dir: $work/audit
egress: {nameservers: ["127.0.0.1:$dns"], reachable: [127.0.0.1/32]}
$settings
profiles:
  agent:
    defaults:
      resources: {require_hard_limits: $hard}
      network: {mode: allowlist, allowed_hosts: [good.example], allowed_ports: [$web]}
    limits:
      network: {modes: [none, allowlist], allowed_hosts: [good.example], allowed_ports: [$web]}
END
mkdir -m 700 "$work/audit"
ln -s busybox rootfs/bin/wget
say "cat $work/host.yaml"
cat "$work/host.yaml"
run policy test --profile agent "http://good.example:$web/" "http://bad.example:$web/" || true

cat >rootfs/bin/visit <<END
#!/bin/sh
exec 2>&1
for name in good.example bad.example 127.0.0.1; do
	echo "\\$ wget -O - http://\$name:$web/"
	wget -q -O - "http://\$name:$web/" || echo "exit \$?"
done
END
chmod 755 rootfs/bin/visit
sed -i -e 's;"args": \[.*;"args": ["sleep", "100"],;' -e '/"args": \["sleep", "100"\],/,/\],/{/"args"/!d;}' config.json
run run --detach "$id" </dev/null
run exec "$id" visit
attest "$id"
gone "$id"
say "cat $work/audit/$id.egress.jsonl"
cat "$work/audit/$id.egress.jsonl"
