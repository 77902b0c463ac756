# Sourced: starts a server on a port, logs in as the user who runs this.
. /workload/server.sh
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f key
cp key.pub authorized
/usr/sbin/sshd -D -e -p 2222 -f /dev/null -h "$PWD/host" -o ListenAddress=127.0.0.1 -o "PidFile=$PWD/pid" \
	-o StrictModes=no -o "AuthorizedKeysFile=$PWD/authorized" -o UsePAM=no &
sshd=$!
login() {
	ssh -F /dev/null -i key -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o BatchMode=yes 127.0.0.1 "$@"
}
up $sshd bash -c 'exec 3<>/dev/tcp/127.0.0.1/2222'
[ "$(login id -u)" = "$(id -u)" ]
login cat </etc/passwd | cmp - /etc/passwd
end $sshd
