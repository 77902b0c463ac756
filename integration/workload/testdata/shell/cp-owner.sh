# A program of another group, as in any image: cp --archive keeps the group.
cp --archive /usr/bin/ssh-agent copy
[ "$(stat -c %G copy)" = _ssh ]
