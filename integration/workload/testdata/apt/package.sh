# Sourced: makes sample.deb, which holds one file and a script.
mkdir -p sample/DEBIAN sample/usr/share/sample
cat >sample/DEBIAN/control <<'CONTROL'
Package: sample
Version: 1.0
Architecture: all
Maintainer: nobody <nobody@localhost>
Description: a file and a script
CONTROL
printf '#!/bin/sh\necho configured >/var/lib/sample\n' >sample/DEBIAN/postinst
chmod 755 sample/DEBIAN/postinst
echo content >sample/usr/share/sample/file
dpkg-deb --root-owner-group --build sample sample.deb
