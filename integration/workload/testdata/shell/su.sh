[ "$(su -s /bin/sh -c 'id -un' nobody)" = nobody ]
