dash -eu <<'SCRIPT'
mkfifo fifo
trap 'echo trapped >signal' USR1
(echo through the fifo >fifo) &
read -r line <fifo
[ "$line" = "through the fifo" ]
kill -USR1 $$
[ "$(cat signal)" = trapped ]
[ "$(seq 100 | grep 7 | sort -rn | head -n 1 | tr 7 x)" = 9x ]
timeout 0.1 sleep 10 && exit 1
flock lock true
SCRIPT
