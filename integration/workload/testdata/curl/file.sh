seq 10 >file
curl --silent --fail "file://$PWD/file" | cmp - file
