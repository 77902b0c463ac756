openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key
openssl req -x509 -new -key key -subj /CN=localhost -days 1 -out cert
openssl verify -CAfile cert cert
seq 10000 >file
openssl enc -aes-256-cbc -pbkdf2 -pass pass:secret -in file -out file.enc
openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:secret -in file.enc | cmp - file
openssl rand -hex 16
openssl speed -seconds 1 -bytes 1024 sha256
