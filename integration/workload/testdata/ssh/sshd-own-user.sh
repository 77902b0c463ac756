. /workload/ssh/login.sh
