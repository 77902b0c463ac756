. /workload/server.sh
echo content >page
python3 -m http.server --bind 127.0.0.1 8000 &
up $! curl --silent --fail http://127.0.0.1:8000/page
[ "$(curl --silent --fail http://localhost:8000/page)" = content ]
end $!
