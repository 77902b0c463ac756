//go:build kernel

package kernel

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// listenAt stands in for an engine at dir/console, which takes terminals and
// hangs up when they do, and for systemd at dir/notify. heard ends both and
// tells what came; terminals come one after the other.
func listenAt(t *testing.T, dir string) (heard func() string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "console"), Net: "unix"})
	check(t, err)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	check(t, err)
	var console, notified string
	var both sync.WaitGroup
	both.Go(func() { console = takeTerminals(l) })
	both.Go(func() { notified = readDatagrams(manager) })
	return func() string {
		check(t, l.Close())
		check(t, manager.Close())
		both.Wait()
		return "console:\n" + strings.ReplaceAll(console, "\r\n", "<CR>\n") + "notify:\n" + notified
	}
}

func takeTerminals(l *net.UnixListener) string {
	var all strings.Builder
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return all.String()
		}
		all.WriteString(takeTerminal(conn) + "\n")
	}
}

// takeTerminal returns what is written to the terminal that comes over conn.
func takeTerminal(conn *net.UnixConn) string {
	defer conn.Close()
	text, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(text, oob)
	if err != nil || oobn == 0 {
		return "no terminal"
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return "not one control message"
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return "not one descriptor"
	}
	f := os.NewFile(uintptr(fds[0]), "terminal")
	defer f.Close()
	return "sent as " + string(text[:n]) + "\n" + readUntil(f, "<never>")
}

// TestDifferentialSockets: descriptors and messages that pass between a service
// manager or an engine and a container.
func TestDifferentialSockets(t *testing.T) { duel(t, sockets) }

var sockets = []twin{
	{name: "console socket", sockets: true, edit: script(`tty; stty size; stty -a | grep -v speed; stat -c '%a %u %g' $(tty); exit 5`), script: `
conf '.process.terminal=true'; r create -b $B --console-socket $W/console $ID; r start $ID; is stopped; k delete $ID
conf '.process.consoleSize={"height":11,"width":22}|.process.user={"uid":5,"gid":6}'; r run -d -b $B --console-socket $W/console $ID; is stopped
k delete $ID
cd $W; r run -d -b b --console-socket console $ID; r run -d --console-socket console $ID; conf '.process.args=["/none"]'
r run -d -b $B --console-socket $W/console $ID
conf '.process.terminal=false|.process.args=["sleep","1000"]|del(.process.user)'; k run -d -b $B $ID
r exec -d -t --console-socket $W/console --pid-file $W/pid $ID sh -c 'tty; stty size; id'
r exec -d -t --console-socket $W/console $ID /none; jq -c '.process|.terminal=true|.args=["tty"]' $B/config.json >$W/p
r exec -d -p $W/p --console-socket $W/console $ID; sleep 0.1`},
	{name: "notify socket", sockets: true, script: `export NOTIFY_SOCKET=$W/notify
conf '.mounts+=[{"destination":"/probe","type":"bind","source":"'$PROBES'","options":["bind","ro"]}]'
conf '.process.args=["sh","-c","/probe/notify \"X=1\nREADY=1\nY=2\"; /probe/notify STATUS=x; /probe/notify READY=1; echo $NOTIFY_SOCKET; stat -c \"%a %u %F\" /run/notify /run/notify/notify.sock; grep notify /proc/self/mountinfo | cut -d\" \" -f 5,6; exec sleep 1000"]'
k create -b $B $ID; ls -l $ROOT/$ID | awk '{print $1,$NF}' | grep notify; echo "$(pid) INIT" >>$W/names; k start $ID; await "grep -q relatime $W/out.1"
cat $W/out.1; k delete -f $ID
k run -d -b $B $ID; echo "$(pid) INIT" >>$W/names; k delete -f $ID; bg run -b $B $ID; says relatime; sleep 0.1; k kill $ID KILL; ended
export NOTIFY_SOCKET=$W/nowhere; bg run -b $B $ID; is running; k kill $ID KILL; wait $p; echo $?; k run -d -b $B $ID; k delete -f $ID
r create -b $B $ID; r start $ID; k delete -f $ID; export NOTIFY_SOCKET=; k run -d -b $B $ID; ls $ROOT/$ID`, differ: []difference{
		{`^> pending.json$`, "the record for delete --force of a create that was killed (README)"},
	}},
	{name: "never ready", sockets: true, script: `export NOTIFY_SOCKET=$W/notify; conf '.process.args=["sh","-c","sleep 0.1; exit 3"]'
k create -b $B $ID; r start $ID; k delete -f $ID
for v in run 'run -d'; do timeout -s KILL 1 $RT --root $ROOT $v -b $B $ID >o 2>e </dev/null; echo "$v: exit $?"; cat o e
k delete -f $ID; done`, differ: []difference{
		{`^(< run( -d)?: exit 137|< Killed|> run: exit 3|> run -d: exit 0)$`, "runc waits for READY=1 of a container that is gone, for ever"},
	}},
	{name: "descriptors", script: `for i in 3 4 5; do echo $i >$W/file$i; done; exec 3<$W/file3 4<$W/file4 5<$W/file5
conf '.process.args=["sh","-c","env | grep LISTEN; for f in 3 4 5 6 7 8; do [ -e /proc/self/fd/$f ] && echo $f $(cat <&$f); done; exit 0"]'
for n in 0 1 2 3; do r run -b $B --preserve-fds $n $ID; done; k run -d -b $B --preserve-fds 2 $ID; is stopped; cat $W/out.5; k delete $ID
for e in 'LISTEN_FDS=1' 'LISTEN_FDS=2 LISTEN_PID=$$' 'LISTEN_FDS=1 LISTEN_PID=1' 'LISTEN_FDS=x LISTEN_PID=$$' 'LISTEN_FDS=-1 LISTEN_PID=$$' \
'LISTEN_FDS=0 LISTEN_PID=$$' 'LISTEN_FDS=1 LISTEN_PID=$$ LISTEN_FDNAMES=a'; do for f in '' '--preserve-fds 1'; do
echo "== $e $f"; sh -c "export $e; exec $RT --root $ROOT run -b $B $f $ID" 2>&1; done; done
conf '.process.args=["sleep","1000"]'; k run -d -b $B $ID; for n in 0 1 3; do r exec --preserve-fds $n $ID sh -c 'ls /proc/self/fd | wc -l'; done
LISTEN_FDS=1 r exec $ID env`},
	{name: "unprivileged", script: `chmod 755 $W; mkdir $W/xdg $W/other; chown 1234:1234 $W/xdg
u() { setpriv --reuid 1234 --regid 1234 --clear-groups env -i PATH=$PATH "$@" >$W/o 2>$W/e; echo "exit $?"; show out $W/o; show err $W/e; }
cd $W/other; chown 1234 .; u $RT spec --rootless; stat -c '%a %u' config.json; u XDG_RUNTIME_DIR=$W/xdg $RT list; ls $W/xdg; stat -c '%a %u' $W/xdg/*
u $RT list; u XDG_RUNTIME_DIR=$W/b $RT list; u XDG_RUNTIME_DIR=$W/none $RT list; u XDG_RUNTIME_DIR=rel $RT list; ls
u XDG_RUNTIME_DIR=$W/none $RT --root $W/xdg/r list; u XDG_RUNTIME_DIR=$W/none $RT --version
u $RT state x; u $RT delete -f x; u $RT --root $ROOT list; u $RT --root $ROOT state x; u $RT --root $ROOT run -b $B x; u $RT --root $W/xdg/r run -b $B x
u $RT --root $W/xdg/r create -b $B x; ls $W/xdg; u $RT checkpoint x; u $RT restore x; u $RT pause x
jq -c '.root.path="'$BUSYBOX'"|.process.terminal=false|.process.args=["sh","-c","id; cat /proc/self/setgroups; exit 4"]' $W/other/config.json >$B/config.json
u XDG_RUNTIME_DIR=$W/xdg $RT run -b $B x; u XDG_RUNTIME_DIR=$W/xdg $RT --rootless=false run -b $B x; u XDG_RUNTIME_DIR=$W/xdg $RT list -q
u XDG_RUNTIME_DIR=$W/xdg $RT run --keep -b $B x; u XDG_RUNTIME_DIR=$W/xdg $RT list -f json; u XDG_RUNTIME_DIR=$W/xdg $RT pause x
u XDG_RUNTIME_DIR=$W/xdg $RT ps x; u XDG_RUNTIME_DIR=$W/xdg $RT update --pids-limit 5 x; u XDG_RUNTIME_DIR=$W/xdg $RT delete x
conf '.process.args=["sleep","1000"]'; u XDG_RUNTIME_DIR=$W/xdg $RT run -d -b $B x; u XDG_RUNTIME_DIR=$W/xdg $RT pause x
u XDG_RUNTIME_DIR=$W/xdg $RT resume x; u XDG_RUNTIME_DIR=$W/xdg $RT ps x; u XDG_RUNTIME_DIR=$W/xdg $RT update --pids-limit 5 x
u XDG_RUNTIME_DIR=$W/xdg $RT events --stats x; u XDG_RUNTIME_DIR=$W/xdg $RT exec x id; u XDG_RUNTIME_DIR=$W/xdg $RT delete x
u XDG_RUNTIME_DIR=$W/xdg $RT delete -f x; find $W/xdg`, differ: []difference{
		{`^[<>] (PROGRAM|sage|WORK/xdg/(runc|sage))$`, "the name of the default root"},
		{`XDG_RUNTIME_DIR must be writable|mkdir WORK/(b/runc|none)`, "one record and not a line beside it"},
		{`is untested with rootless`, "restore says that it is restore"},
	}},
}
