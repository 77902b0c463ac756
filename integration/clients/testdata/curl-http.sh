said=$(curl -sS http://$1/)
echo "$said"
[ "$said" = hello ]
