# As the entry point of the usual image: root makes the folder, and gives it and
# itself to the server's user.
install -d -o postgres -g postgres -m 700 base
cd base
setpriv --reuid=postgres --regid=postgres --init-groups bash -eu /workload/postgres/own-user.sh
