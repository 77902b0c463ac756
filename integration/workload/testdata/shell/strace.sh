strace -f -o trace sh -c '/bin/true; /bin/true'
[ "$(grep -c execve trace)" -ge 3 ]
