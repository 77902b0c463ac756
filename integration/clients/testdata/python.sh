python3 -c 'import sys, urllib.request as r; assert r.urlopen(sys.argv[1]).read() == b"hello"' https://$1/
