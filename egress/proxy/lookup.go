package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// lookup asks nameservers for the addresses of a name. net.Resolver would do,
// but it opens /etc/resolv.conf, /etc/hosts and /etc/nsswitch.conf on the way,
// and a process that opens a file is ended by its filter; what it found there
// would not be wanted either.
type lookup struct {
	servers []netip.AddrPort
}

const (
	// askTime is how long one nameserver has for one answer, and askRounds how
	// often each is asked: what resolv.conf(5) has, but half the time.
	askTime   = 2500 * time.Millisecond
	askRounds = 2
	// secondFamily is how long the addresses of one family wait for those of the
	// other: nameservers exist that never answer for AAAA. RFC 8305 section 3.
	secondFamily = 300 * time.Millisecond
)

var (
	errNoSuchHost = errors.New("the name has no address")
	errNoServer   = errors.New("no nameserver is configured")
	errAnswer     = errors.New("nameserver gave no usable answer")
)

type answer struct {
	addrs []netip.Addr
	err   error
}

// host gives all addresses of a name, in the order in which they came, each
// once. The name has no dot at its end; it is asked for with one, so that no
// search domain comes into it.
func (l *lookup) host(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 2)
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		go func() {
			addrs, err := l.ask(ctx, name, kind)
			answers <- answer{addrs, err}
		}()
	}
	first := <-answers
	var patience <-chan time.Time
	if len(first.addrs) > 0 {
		patience = time.After(secondFamily)
	}
	select {
	case second := <-answers:
		return join(first, second)
	case <-patience:
		return first.addrs, nil
	}
}

func join(a, b answer) ([]netip.Addr, error) {
	if addrs := append(a.addrs, b.addrs...); len(addrs) > 0 {
		return addrs, nil
	}
	// "no such host" is an answer, the others are the lack of one.
	if a.err != nil && !errors.Is(a.err, errNoSuchHost) {
		return nil, a.err
	}
	if b.err != nil {
		return nil, b.err
	}
	return nil, errNoSuchHost
}

// ask goes round the nameservers until one answers.
func (l *lookup) ask(ctx context.Context, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	last := errNoServer
	for range askRounds {
		for _, server := range l.servers {
			addrs, err := askServer(ctx, server, name, kind)
			if err == nil || errors.Is(err, errNoSuchHost) {
				return addrs, err
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			last = err
		}
	}
	return nil, last
}

func askServer(ctx context.Context, server netip.AddrPort, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	question, id, err := newQuestion(name, kind)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reply, err := exchange(ctx, "udp", server, question, id)
	if err != nil {
		return nil, err
	}
	addrs, truncated, err := readAnswer(reply, id, question)
	if truncated {
		if reply, err = exchange(ctx, "tcp", server, question, id); err != nil {
			return nil, err
		}
		addrs, _, err = readAnswer(reply, id, question)
	}
	return addrs, err
}

func newQuestion(name string, kind dnsmessage.Type) (packet []byte, id uint16, err error) {
	parsed, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, 0, err
	}
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails, crypto/rand
	id = binary.BigEndian.Uint16(random[:])
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: parsed, Type: kind, Class: dnsmessage.ClassINET}},
	}
	packet, err = message.Pack()
	return packet, id, err
}

// exchange sends the question from a port of the kernel's choice on a connected
// socket, so that nobody else's packet gets in, and waits for the reply with
// its id: others are late ones, or forged.
func exchange(ctx context.Context, network string, server netip.AddrPort, question []byte, id uint16) ([]byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		return exchangeStream(conn, question)
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	reply := make([]byte, 4096)
	for {
		n, err := conn.Read(reply)
		if err != nil {
			return nil, err
		}
		if n >= 2 && binary.BigEndian.Uint16(reply) == id {
			return reply[:n], nil
		}
	}
}

func exchangeStream(conn net.Conn, question []byte) ([]byte, error) {
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(question)))
	if _, err := conn.Write(append(framed, question...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, reply)
	return reply, err
}

// readAnswer takes the addresses out of a reply to question. The names of the
// records do not matter: a chain of aliases ends somewhere, and every address
// is judged for itself.
func readAnswer(reply []byte, id uint16, question []byte) (addrs []netip.Addr, truncated bool, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(reply)
	if err != nil || !h.Response || h.ID != id {
		return nil, false, errAnswer
	}
	if err := sameQuestion(&p, question); err != nil {
		return nil, false, err
	}
	switch {
	case h.Truncated:
		return nil, true, nil
	case h.RCode == dnsmessage.RCodeNameError:
		return nil, false, errNoSuchHost
	case h.RCode != dnsmessage.RCodeSuccess:
		return nil, false, errAnswer
	}
	addrs, err = readAddrs(&p)
	return addrs, false, err
}

func sameQuestion(p *dnsmessage.Parser, question []byte) error {
	var asked dnsmessage.Message
	if err := asked.Unpack(question); err != nil {
		return err
	}
	got, err := p.AllQuestions()
	if err != nil || len(got) != 1 || got[0].Type != asked.Questions[0].Type || got[0].Class != dnsmessage.ClassINET ||
		!strings.EqualFold(got[0].Name.String(), asked.Questions[0].Name.String()) {
		return errAnswer
	}
	return nil
}

func readAddrs(p *dnsmessage.Parser) (addrs []netip.Addr, err error) {
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil {
			return nil, errAnswer
		}
		var addr netip.Addr
		switch {
		case h.Class == dnsmessage.ClassINET && h.Type == dnsmessage.TypeA:
			r, rerr := p.AResource()
			addr, err = netip.AddrFrom4(r.A), rerr
		case h.Class == dnsmessage.ClassINET && h.Type == dnsmessage.TypeAAAA:
			r, rerr := p.AAAAResource()
			addr, err = netip.AddrFrom16(r.AAAA), rerr
		default:
			err = p.SkipAnswer()
		}
		if err != nil {
			return nil, errAnswer
		}
		if addr.IsValid() {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return nil, errNoSuchHost
	}
	return addrs, nil
}
