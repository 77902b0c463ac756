# The profile agent lets nobody become another user, or write to a folder that is
# another's: apt makes these anew.
echo 'APT::Sandbox::User "root";' >/etc/apt/apt.conf.d/root
rm -r /var/lib/apt/lists/partial /var/cache/apt/archives/partial
echo "deb [trusted=yes] https://$1/debian ./" >/etc/apt/sources.list
apt-get -q -o Acquire::Retries=0 --error-on=any update
apt-get -q --yes install hello-sage
[ "$(cat /usr/share/hello-sage)" = hello ]
