[ "$(setpriv --reuid=1000 --regid=1000 --clear-groups id -u)" = 1000 ]
