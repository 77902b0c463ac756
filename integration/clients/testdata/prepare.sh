# Runs once, in the image.
cat /clients/ca.pem >>/etc/ssl/certs/ca-certificates.crt
keytool -importcert -noprompt -cacerts -storepass changeit -alias test -file /clients/ca.pem
javac -d /clients /clients/Fetch.java

# A repository, for https and for ssh.
export GIT_AUTHOR_NAME=worker GIT_AUTHOR_EMAIL=worker@localhost GIT_COMMITTER_NAME=worker GIT_COMMITTER_EMAIL=worker@localhost
git config --system safe.directory '*'
git init -q /tmp/hello
echo hello >/tmp/hello/file
git -C /tmp/hello add file
git -C /tmp/hello commit -q -m hello
git clone -q --bare /tmp/hello /srv/hello.git

# The server's key, which the client knows, and the client's.
ssh-keygen -q -t ed25519 -N '' -f /clients/host-key
ssh-keygen -q -t ed25519 -N '' -f /clients/key
echo "ssh.test $(cat /clients/host-key.pub)" >/clients/known-hosts
