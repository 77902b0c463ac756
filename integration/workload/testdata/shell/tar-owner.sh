# As root tar restores owners, unless it is told --no-same-owner.
touch file
tar --owner=1000 --group=1000 -cf file.tar file
tar --no-same-owner -xf file.tar
tar -xf file.tar
[ "$(stat -c %u file)" = 1000 ]
