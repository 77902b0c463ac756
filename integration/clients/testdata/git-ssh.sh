export GIT_SSH_COMMAND='ssh -i /clients/key -o UserKnownHostsFile=/clients/known-hosts -o BatchMode=yes'
git clone -q root@$1:/srv/hello.git
[ "$(cat hello/file)" = hello ]
