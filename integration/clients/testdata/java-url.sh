[ "$(java -cp /clients Fetch url https://$1/)" = hello ]
