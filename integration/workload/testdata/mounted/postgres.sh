. /workload/postgres/use.sh
use "$PWD"
