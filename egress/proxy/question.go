package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// askBoth asks one nameserver for both families, on one socket. ok says that
// there are two answers, or one with addresses and none for the other in time.
func askBoth(ctx context.Context, server netip.AddrPort, name string) (four, six answer, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := connect(ctx, unix.SOCK_DGRAM, server)
	if err != nil {
		return four, six, false
	}
	defer conn.Close()
	defer conn.until(ctx)()
	var questions [2][]byte
	var ids [2]uint16
	for i, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		if questions[i], ids[i], err = newQuestion(name, kind); err != nil {
			return four, six, false
		}
		if _, err := conn.Write(questions[i]); err != nil {
			return four, six, false
		}
	}
	var got [2]answer
	ok = receiveBoth(ctx, conn, server, questions, ids, &got)
	return got[0], got[1], ok
}

// receiveBoth waits for the replies, for the second not as long as for the first.
func receiveBoth(ctx context.Context, conn *socket, server netip.AddrPort, questions [2][]byte, ids [2]uint16, got *[2]answer) bool {
	room := buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(room)
	var have [2]bool
	for !have[0] || !have[1] {
		n, err := conn.Read(room[:])
		if err != nil {
			return len(got[0].addrs)+len(got[1].addrs) > 0
		}
		for i := range got {
			// A reply to the other question, though it should have this one's id, is
			// no reply to this one.
			if have[i] || n < 2 || binary.BigEndian.Uint16(room[:]) != ids[i] {
				continue
			}
			addrs, err := wholeAnswer(ctx, server, room[:n], ids[i], questions[i])
			if err != nil && !errors.Is(err, errNoSuchHost) {
				return false
			}
			got[i], have[i] = answer{addrs, err}, true
			if len(addrs) > 0 {
				_ = conn.SetReadDeadline(time.Now().Add(secondFamily))
			}
		}
	}
	return true
}

func askServer(ctx context.Context, server netip.AddrPort, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	question, id, err := newQuestion(name, kind)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	room := buffers.Get().(*[bufferSize]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer buffers.Put(room)
	reply, err := exchange(ctx, unix.SOCK_DGRAM, server, question, id, room[:])
	if err != nil {
		return nil, err
	}
	return wholeAnswer(ctx, server, reply, id, question)
}

// wholeAnswer reads the reply to question. One that was cut to fit into a packet
// is asked for again by TCP.
func wholeAnswer(ctx context.Context, server netip.AddrPort, reply []byte, id uint16, question []byte) ([]netip.Addr, error) {
	addrs, truncated, err := readAnswer(reply, id, question)
	if truncated {
		if reply, err = exchange(ctx, unix.SOCK_STREAM, server, question, id, nil); err != nil {
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
// its id: others are late ones, or forged. A packet's reply is in room.
func exchange(ctx context.Context, kind int, server netip.AddrPort, question []byte, id uint16, room []byte) ([]byte, error) {
	conn, err := connect(ctx, kind, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer conn.until(ctx)()
	if kind == unix.SOCK_STREAM {
		return exchangeStream(conn, question)
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	for {
		n, err := conn.Read(room)
		if err != nil {
			return nil, err
		}
		if n >= 2 && binary.BigEndian.Uint16(room) == id {
			return room[:n], nil
		}
	}
}

func exchangeStream(conn io.ReadWriter, question []byte) ([]byte, error) {
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
