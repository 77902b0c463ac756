. /workload/apt/package.sh
dpkg --install sample.deb
[ "$(cat /usr/share/sample/file /var/lib/sample | tr '\n' ' ')" = 'content configured ' ]
dpkg --verify sample
dpkg --purge sample
