. /workload/server.sh
git init --quiet --initial-branch=main repo
git -C repo commit --quiet --allow-empty --message empty
git daemon --export-all --base-path=. --listen=127.0.0.1 --port=9418 --reuseaddr --verbose &
up $! git ls-remote git://127.0.0.1/repo
git clone --quiet git://127.0.0.1/repo copy
end $!
