lsattr /etc/debian_version
chattr +d /etc/debian_version
