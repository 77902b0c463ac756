mkdir tree
seq 1000 | split -l 10 - tree/part.
chmod 4755 tree/part.aa
ln -s part.aa tree/link
tar -czf tree.tgz tree
mkdir out
tar -xzpf tree.tgz -C out
diff -r tree out/tree
[ "$(stat -c %a out/tree/part.aa)" = 4755 ]
