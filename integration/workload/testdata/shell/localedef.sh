localedef -i de_DE -f UTF-8 ./de_DE.UTF-8
[ "$(LOCPATH=$PWD LC_ALL=de_DE.UTF-8 date -d @0 +%A)" = Donnerstag ]
