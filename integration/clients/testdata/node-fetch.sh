[ "$(node /clients/fetch.js https://$1/)" = hello ]
