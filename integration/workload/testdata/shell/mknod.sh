mknod fifo p
mknod null c 1 3
