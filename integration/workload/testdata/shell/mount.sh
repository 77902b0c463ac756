mount -t tmpfs tmpfs /mnt
