useradd --create-home another
[ "$(stat -c %U /home/another)" = another ]
