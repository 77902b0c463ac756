. /workload/apt/package.sh
apt-get install --yes ./sample.deb
dpkg --status sample
