cp -r /workload/go/module .
cd module
go build -o app .
[ "$(./app)" = '42 true' ]
