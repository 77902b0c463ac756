echo more >/mnt/other/new
git init --quiet /mnt/other/repo
