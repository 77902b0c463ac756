. /workload/apt/package.sh
apt-get install --yes -o APT::Sandbox::User=root ./sample.deb
dpkg --status sample
