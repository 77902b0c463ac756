mkdir -p /run/sshd
. /workload/ssh/login.sh
