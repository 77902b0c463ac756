# PostgreSQL and sshd, each started as it likes, until the container ends.
install -d -o postgres -g postgres -m 700 /tmp/base
cd /tmp/base
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
PATH=$PATH:/usr/lib/postgresql/15/bin
as_postgres initdb --pgdata=data --auth=trust --no-sync --locale=C.UTF-8 >/dev/null
as_postgres postgres -D data -c unix_socket_directories= -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=16MB &
mkdir -p /run/sshd
/usr/sbin/sshd -D -e -f /dev/null -h /clients/host-key -o ListenAddress=127.0.0.1 -o StrictModes=no \
	-o AuthorizedKeysFile=/clients/key.pub -o UsePAM=no &
wait
