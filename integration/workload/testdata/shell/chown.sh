touch file
chown nobody:nogroup file
[ "$(stat -c %U file)" = nobody ]
