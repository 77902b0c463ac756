ssh-keygen -q -t ed25519 -N '' -f key
eval "$(ssh-agent -s)"
ssh-add key
ssh-add -l | grep ED25519
ssh-agent -k
