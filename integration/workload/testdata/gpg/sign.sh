export GNUPGHOME=$PWD/keys
mkdir -m 700 keys
gpg --batch --passphrase '' --quick-generate-key 'worker <worker@localhost>' ed25519 sign never
echo text >file
gpg --batch --detach-sign file
gpg --verify file.sig file
gpgconf --kill gpg-agent
