echo '@reboot root id >/tmp/ran' >/etc/cron.d/test
chmod 644 /etc/cron.d/test
cron -f -L 15 &
for _ in $(seq 50); do [ -s /tmp/ran ] && break; sleep 0.1; done
kill $!
grep uid=0 /tmp/ran || { echo 'no job ran' >&2; exit 1; }
