# Sourced: a server in $PWD/data, used over its Unix socket and over TCP, or over
# TCP alone.
#
#   use FOLDER-OF-THE-SOCKET|""
use() {
	PATH=$PATH:/usr/lib/postgresql/15/bin
	initdb --pgdata=data --auth=trust --no-sync --locale=C.UTF-8 >/dev/null
	pg_ctl --pgdata=data --log=log --wait --timeout=20 \
		--options="-c unix_socket_directories='$1' -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=16MB" start || { cat log; return 1; }
	host=${1:-127.0.0.1}
	psql --host="$host" --dbname=postgres --command='create table t as select generate_series(1, 1000) n'
	[ "$(psql --host=127.0.0.1 --dbname=postgres -At --command='select sum(n) from t')" = 500500 ]
	pgbench --host="$host" --initialize --quiet postgres
	pgbench --host=127.0.0.1 --client=4 --jobs=2 --time=1 postgres
	vacuumdb --host="$host" --jobs=2 --analyze postgres
	pg_ctl --pgdata=data --wait --mode=fast stop
}
