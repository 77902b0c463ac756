[ "$(java -cp /clients Fetch websocket wss://$1/echo)" = hello ]
