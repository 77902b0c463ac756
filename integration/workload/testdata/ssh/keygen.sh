ssh-keygen -q -t ed25519 -N '' -f key
echo text >file
ssh-keygen -q -Y sign -f key -n file file
echo "worker $(cat key.pub)" >signers
ssh-keygen -Y verify -f signers -I worker -n file -s file.sig <file
