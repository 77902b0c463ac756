export GOPROXY=https://$1/goproxy GOSUMDB=off GOPATH=/tmp/go GOFLAGS=-modcacherw
mkdir module
cd module
go mod init example.test/module
go get hello.test/hello@v1.0.0
grep 'hello.test/hello v1.0.0' go.mod
