echo more >/mnt/read/new
