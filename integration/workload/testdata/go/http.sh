cp -r /workload/go/module .
cd module
go test ./web
