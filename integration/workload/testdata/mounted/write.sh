echo more >/mnt/write/new
mv /mnt/write/new /mnt/write/renamed
git init --quiet /mnt/write/repo
