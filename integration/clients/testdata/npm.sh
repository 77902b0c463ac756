npm install --no-audit --no-fund --no-update-notifier --registry https://$1/npm hello
[ "$(node -p 'require("hello")')" = hello ]
