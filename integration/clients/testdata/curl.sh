said=$(curl -sS https://$1/)
echo "$said"
[ "$said" = hello ]
