# A folder of the user with number 1000, as people mount their projects into
# containers whose user is root.
echo more >/mnt/other/new
