[ "$(wget -nv -O- https://$1/)" = hello ]
