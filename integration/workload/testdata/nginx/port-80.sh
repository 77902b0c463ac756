. /workload/server.sh
nginx -g 'daemon off; error_log stderr;' &
up $! curl --silent --fail http://127.0.0.1/
curl --silent --fail http://127.0.0.1/ | grep -i nginx
ps -o user= -C nginx | grep www-data
end $!
