[ "$(java -cp /clients Fetch client https://$1/)" = hello ]
