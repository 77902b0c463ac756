. /workload/postgres/use.sh
use ''
