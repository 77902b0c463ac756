# Sourced by programs that start a server of their own and then talk to it.

# up PID COMMAND...: waits until the command succeeds, or the server has ended.
up() {
	server=$1
	shift
	for _ in $(seq 100); do
		kill -0 "$server" || { wait "$server"; return 1; }
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	echo "no answer after 10 s from: $*" >&2
	return 1
}

# end PID: the server ends by the signal that a service gets.
end() {
	kill "$1"
	wait "$1" || true
}
