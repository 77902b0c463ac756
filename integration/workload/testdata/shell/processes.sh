set -x # Nothing here says what is wrong.
sleep 50 &
for _ in $(seq 50); do
	ps aux >processes
	grep -q '[s]leep 50' processes && break
	sleep 0.1
done
grep '[s]leep 50' processes
[ "$(pgrep -x sleep)" = $! ]
top -b -n 1 >top
grep bash top
free -m
nproc
df /tmp
id
uptime
pkill -x sleep
wait $! || [ $? = 143 ]
