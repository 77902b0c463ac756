# tail --follow waits by inotify.
touch log
tail --follow=name log >seen &
tail=$!
for i in 1 2 3; do echo "line $i" >>log; sleep 0.1; done
for _ in $(seq 50); do grep -q 'line 3' seen && break; sleep 0.1; done
kill $tail
grep -q 'line 3' seen
