. /workload/server.sh
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key -out cert -days 1 2>/dev/null
openssl s_server -quiet -accept 127.0.0.1:4433 -key key -cert cert -www &
up $! curl --silent --fail --cacert cert https://localhost:4433/
openssl s_client -connect 127.0.0.1:4433 -CAfile cert -verify_return_error </dev/null | grep 'Verify return code: 0'
end $!
