[ "$(TZ=Europe/Berlin date -d @0 +%H)" = 01 ]
[ "$(TZ=America/New_York date -d @0 +%H)" = 19 ]
[ "$(LC_ALL=C.UTF-8 python3 -c 'print(len("\u00e4\u00f6"))')" = 2 ]
[ "$(printf '\303\244' | LC_ALL=C.UTF-8 wc -m)" = 1 ]
