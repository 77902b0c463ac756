//go:build kernel

package proxy

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sage-sandbox/sage/egress"
)

// endless is a server that sends for as long as somebody reads.
func endless(t *testing.T) (port uint16) {
	t.Helper()
	l, port := listen(t)
	acceptEach(l, func(c net.Conn) {
		for b := make([]byte, 1<<20); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	return port
}

// Proves: connections that never have to wait for anything leave the others
// their turn, though the program has one thread for Go code.
func TestProgramBusy(t *testing.T) {
	port, config := tlsOrigin(t, nil, "origin.example")
	pour := endless(t)
	var cmd exec.Cmd
	p := start(t, options{
		allow: []string{fmt.Sprintf("origin.example:%d", port), fmt.Sprintf("tcp://db.example:%d", pour)}, process: confined(t, program(t), &cmd),
	})
	p.names.set("origin.example", []string{"127.0.0.1"})
	p.names.set("db.example", []string{"127.0.0.1"})
	for range 3 {
		c := p.connect(fmt.Sprintf("db.example:%d", pour))
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		go func() { _, _ = io.Copy(io.Discard, c) }()
	}
	var took []time.Duration
	for range 20 {
		began := time.Now()
		if body, err := get(p.connect(fmt.Sprintf("origin.example:%d", port)), config); err != nil {
			t.Fatalf("got %q, %v, after %v", body, err, time.Since(began))
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("a request took %v, the longest %v, while %d MiB went by", took[10], took[19], p.count(egress.CounterBytesDown)>>20)
}
