ip address show dev lo | grep 127.0.0.1
ip route show
ss -tln
