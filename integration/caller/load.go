package caller

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// idle opens as many connections to the proxy as it is told to, or as it gets,
// says nothing by them, and keeps them until the file /over exists.
func idle(text string) string {
	n, err := strconv.Atoi(text)
	var held []net.Conn
	for err == nil && len(held) < n {
		var conn net.Conn
		if conn, err = connect("tcp", "127.0.0.1:3128", 10*time.Second); err == nil {
			held = append(held, conn)
		}
	}
	fmt.Fprintf(os.Stdout, "idle: %d of %d, %v\n", len(held), n, err)
	for {
		if _, err := os.Stat("/over"); err == nil {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	for _, conn := range held {
		_ = conn.Close()
	}
	return "closed"
}

// serve answers on a TCP address until it is killed.
func serve(at string) string {
	l, err := net.Listen("tcp", at) //nolint:noctx // until it is killed
	if err != nil {
		return err.Error()
	}
	fmt.Fprintln(os.Stdout, "serving")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err.Error()
		}
		_, _ = io.WriteString(conn, "served\n")
		_ = conn.Close()
	}
}

// eat uses so many MiB of memory, and is killed for it where that is too much.
func eat(text string) string {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err.Error()
	}
	data, err := unix.Mmap(-1, 0, n<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err.Error()
	}
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
	return "ate it"
}

// touch tries what a program can do to another process by its number.
func touch(text string) string {
	pid, err := strconv.Atoi(text)
	if err != nil {
		return err.Error()
	}
	local := []unix.Iovec{{Base: new(byte), Len: 1}}
	remote := []unix.RemoteIovec{{Base: 4096, Len: 1}}
	_, read := unix.ProcessVMReadv(pid, local, remote, 0)
	_, memory := os.Stat(fmt.Sprintf("/proc/%d/mem", pid))
	_, handle := unix.PidfdOpen(pid, 0)
	return fmt.Sprintf("kill %v, ptrace %v, read %v, pidfd %v, seen in proc %t",
		unix.Kill(pid, unix.SIGKILL), unix.PtraceSeize(pid), read, handle, memory == nil)
}
