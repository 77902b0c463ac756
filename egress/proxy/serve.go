package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// server serves one container.
type server struct {
	policy   egress.Policy
	env      egress.Env
	record   *record
	gate     *gate
	lookup   *lookup
	nat64    *nat64
	upstream *upstream // nil but in the mode proxy
	stub     names     // nil without the transparent path
	sessions sync.WaitGroup
	// turnedAway is the second, since 1970, of the last line about that.
	turnedAway atomic.Int64
}

// greetingTime is how long the bridge has to greet: it does so when it accepts.
const greetingTime = 10 * time.Second

// Serve takes over the descriptors that config names and serves until ctx ends,
// the bridge goes away or the container's cgroup is empty; these are no errors.
// It returns when every connection is closed.
func Serve(ctx context.Context, config egress.ProxyConfig) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := newServer(config)
	if err != nil {
		return err
	}
	defer s.record.close()
	control, err := newControl(config.Control)
	if err != nil {
		return err
	}
	defer control.Close()
	defer context.AfterFunc(ctx, func() { _ = control.Close() })()
	dns, err := s.greeted(control)
	if err != nil {
		return err
	}
	if dns != nil {
		defer dns.Close()
		s.sessions.Go(func() { s.stub.ServePacket(ctx, dns) })
	}
	if config.Events >= 0 {
		go endWith(ctx, config.Events, cancel)
	}
	if err := sayReady(config.Ready); err != nil {
		return err
	}
	err = s.receive(ctx, control)
	cancel()
	if dns != nil {
		_ = dns.Close()
	}
	s.sessions.Wait()
	return err
}

func newServer(config egress.ProxyConfig) (*server, error) {
	record, err := newRecord(config)
	if err != nil {
		return nil, err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, os.NewSyscallError("getrlimit", err)
	}
	l := &lookup{servers: config.Nameservers}
	s := &server{
		policy: config.Policy, record: record, gate: newGate(config.Policy.Limits, files.Cur),
		env:    egress.Env{HostAddrs: config.HostAddrs, Reachable: config.Reachable},
		lookup: l, nat64: &nat64{lookup: l},
	}
	if config.Policy.Transparent {
		s.stub = newStub(config.Policy, record)
	}
	if config.Policy.Mode == egress.ModeProxy {
		if config.Policy.Upstream == nil {
			return nil, errors.New("mode proxy without an upstream proxy")
		}
		s.upstream, err = newUpstream(*config.Policy.Upstream, config.Roots, l)
	}
	return s, err
}

// greeted reads the bridge's first message, and the stub resolver's socket that
// comes with it.
func (s *server) greeted(control *control) (net.PacketConn, error) {
	_ = control.SetReadDeadline(time.Now().Add(greetingTime))
	message, fd, err := control.receive()
	if err != nil {
		return nil, fmt.Errorf("wait for the bridge's greeting: %w", err)
	}
	_ = control.SetReadDeadline(time.Time{})
	if string(message) != egress.Greeting {
		closeFD(fd)
		return nil, errors.New("the bridge greets in another way than this version of sage does")
	}
	if fd < 0 {
		return nil, nil
	}
	if s.stub == nil {
		closeFD(fd)
		return nil, errors.New("the bridge has a resolver's socket, and the policy has no transparent path")
	}
	file := os.NewFile(uintptr(fd), "dns")
	defer file.Close()
	return net.FilePacketConn(file)
}

// receive serves what the bridge sends, until it ends.
func (s *server) receive(ctx context.Context, control *control) error {
	for {
		message, fd, err := control.receive()
		if errors.Is(err, io.EOF) || errors.As(err, new(*os.SyscallError)) || ctx.Err() != nil {
			closeFD(fd)
			return unexpected(ctx, err)
		}
		s.record.add(egress.CounterAccepted, 1)
		s.arrive(ctx, message, fd)
	}
}

// unexpected is err, nil for the ways in which the connection to the bridge is
// to end.
func unexpected(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil //nolint:nilerr // these are how it ends
	}
	return fmt.Errorf("receive from the bridge: %w", err)
}

// arrive starts a session. Whatever is wrong with one arrival is not the end of
// the others: the kernel drops a descriptor for which there is no room here.
func (s *server) arrive(ctx context.Context, message []byte, fd int) {
	arrival, err := egress.ParseArrival(message)
	if err != nil || fd < 0 {
		closeFD(fd)
		s.record.add(egress.CounterLimited, 1)
		return
	}
	client, err := adopt(fd)
	if err != nil {
		s.record.add(egress.CounterLimited, 1)
		return
	}
	if arrival.Kind == egress.KindDNS && s.stub == nil {
		_ = client.Close()
		return
	}
	if !s.gate.hold() {
		s.turnAway(client, arrival)
		return
	}
	s.record.add(egress.CounterHeld, 1)
	free := sync.OnceFunc(func() {
		s.record.add(egress.CounterHeld, -1)
		s.gate.release()
	})
	s.sessions.Go(func() {
		defer free()
		s.serve(ctx, client, arrival, free)
	})
}

func (s *server) serve(ctx context.Context, client stream, arrival egress.Arrival, free func()) {
	if arrival.Kind == egress.KindDNS {
		defer client.Close()
		s.stub.ServeStream(ctx, client)
		return
	}
	c := s.newSession(client, arrival)
	c.free = free
	c.run(ctx)
}

// turnAway answers a connection over the limit, without a goroutine for it. It
// cannot block: the answer fits into the empty buffer of a new socket.
func (s *server) turnAway(client stream, arrival egress.Arrival) {
	defer client.Close()
	s.record.add(egress.CounterLimited, 1)
	r := overLimit("the container has as many connections as it may")
	// One line a second says it; the counter knows how many. They would push
	// every other line out of the audit.
	now := time.Now()
	if last := s.turnedAway.Load(); now.Unix() != last && s.turnedAway.CompareAndSwap(last, now.Unix()) {
		s.record.write(egress.AuditLine{
			Time: now, Event: egress.EventEgress, Action: egress.ActionDeny, Kind: arrival.Kind.String(),
			Code: errcode.EgressLimitExceeded, Reason: r.reason,
		})
	}
	if arrival.Kind == egress.KindTransparent {
		return
	}
	_ = client.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := client.Write(r.response("request")); err == nil {
		_ = client.CloseWrite()
		var sink [4 << 10]byte
		_, _ = client.Read(sink[:]) // most often all there is, see part
	}
}
