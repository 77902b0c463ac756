# The folder of the host holds one file of root's.
[ "$(cat /mnt/read/file)" = 'of the host' ]
