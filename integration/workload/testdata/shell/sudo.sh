[ "$(sudo -n id -u)" = 0 ]
