[ "$(unshare --user --map-root-user id -u)" = 0 ]
