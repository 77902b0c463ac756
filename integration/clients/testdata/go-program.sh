[ "$(/clients/fetch fetch https://$1/)" = hello ]
