git clone -q https://$1/hello.git
[ "$(cat hello/file)" = hello ]
