//go:build kernel

package bridge_test

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/egress/bridge"
)

var own = bridge.Options{Own: true, Transparent: []uint16{80, 443, 5432}}

// TestHandsOver connects in every way that there is, and has a proxy answer over
// the descriptor that it got.
//
// Proves: S-076.
func TestHandsOver(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	p := b.proxy(t)
	tests := []struct {
		network, address string
		kind             egress.Kind
	}{
		{"tcp", "127.0.0.1:3128", egress.KindProxy},
		{"tcp", "[::1]:3128", egress.KindProxy},
		{"tcp", "198.18.5.6:443", egress.KindTransparent},
		{"tcp", "198.19.255.255:80", egress.KindTransparent},
		{"tcp", "198.18.0.1:53", egress.KindDNS},
		{"unix", filepath.Join(b.folder, "egress.sock"), egress.KindUnix},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			conn := b.dial(t, tt.network, tt.address)
			arrival, f := p.next(t)
			local := tt.address
			if tt.kind == egress.KindUnix {
				local = "invalid AddrPort"
			}
			if arrival.Kind != tt.kind || arrival.Local.String() != local {
				t.Errorf("saw %v, want %v at %s", arrival, tt.kind, local)
			}
			if _, err := f.WriteString("hello"); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" {
				t.Errorf("saw %q, %v", text, err)
			}
		})
	}
}

// TestResolverSocket has a question and an answer pass by the socket that comes
// with the greeting.
func TestResolverSocket(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	p := b.proxy(t)
	socket := packetConn(t, p.dns)
	conn := b.dial(t, "udp", "198.18.0.1:53")
	if _, err := conn.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	room := make([]byte, 100)
	n, from, err := socket.ReadFrom(room)
	if err != nil || string(room[:n]) != "question" {
		t.Fatalf("saw %q, %v", room[:n], err)
	}
	if _, err := socket.WriteTo([]byte("answer"), from); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(room); err != nil || string(room[:n]) != "answer" {
		t.Errorf("saw %q, %v", room[:n], err)
	}
}

// TestMeasure prints what a bridge costs, and holds its size.
func TestMeasure(t *testing.T) {
	s, g := newSpace(t), newGroup(t)
	for range 2 {
		b := serve(t, s, g, bridge.Options{Own: true}, nil)
		p := b.proxy(t)
		for range 200 {
			conn := b.dial(t, "tcp", "127.0.0.1:3128")
			_, f := p.next(t)
			_, _ = conn.Close(), f.Close()
		}
		eventually(t, "it takes 4096 KiB at most", func() bool { return b.status(t, "VmRSS") <= 4<<10 })
		size := b.status(t, "VmRSS")
		t.Logf("ready after %v; VmRSS %d KiB (anonymous %d KiB), %d threads", b.took, size, b.status(t, "RssAnon"), b.status(t, "Threads"))
		_ = b.cmd.Process.Kill()
		<-b.ended //nolint:errcheck // how it ends is asked elsewhere
	}
}

// TestEnds empties the container's cgroup. Nothing listens then, and who was
// connected is told.
//
// Proves: S-089.
func TestEnds(t *testing.T) {
	b := serve(t, newSpace(t), newGroup(t), own, nil)
	p := b.proxy(t)
	begin := time.Now()
	b.empty(t)
	select {
	case err := <-b.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Second):
		t.Fatal("runs on, a second after its container ended")
	}
	t.Logf("ended after %v", time.Since(begin))
	if n, err := p.control.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("the proxy's connection: saw %d, %v, want its end", n, err)
	}
	for _, address := range []string{"127.0.0.1:3128", "[::1]:3128", "198.18.1.1:443", "198.18.0.1:53"} {
		if _, err := b.tryDial("tcp", address); err == nil {
			t.Errorf("%s still accepts", address)
		}
	}
}

func packetConn(t *testing.T, fd int) net.PacketConn {
	t.Helper()
	f := newFile(fd, "dns")
	defer f.Close()
	conn, err := net.FilePacketConn(f)
	if err != nil {
		t.Fatal(fmt.Errorf("descriptor %d: %w", fd, err))
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	return conn
}
