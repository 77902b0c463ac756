package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// streamIdle is how long a TCP connection may be without a whole question.
const streamIdle = 10 * time.Second

// ServePacket answers questions until ctx ends or the socket is closed. One is
// answered before the next is read, so that a flood costs no memory here; what
// the socket's buffer does not hold is lost, as UDP has it.
func (s *stub) ServePacket(ctx context.Context, socket net.PacketConn) {
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	message := make([]byte, maxQuestion)
	for {
		n, from, err := socket.ReadFrom(message)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// What another packet's ICMP error left behind, for example. It must
			// not end the service, nor be asked for in a loop.
			time.Sleep(time.Millisecond) //nolint:forbidigo // there is no event: the next packet may have the same error
			continue
		}
		if answer := s.answer(message[:n]); answer != nil {
			_, _ = socket.WriteTo(answer, from)
		}
	}
}

// ServeStream answers the questions of one TCP connection, and returns when that
// ends, or ctx does. The caller closes it.
func (s *stub) ServeStream(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	for ctx.Err() == nil {
		if conn.SetDeadline(time.Now().Add(streamIdle)) != nil || ctx.Err() != nil {
			return
		}
		message, err := readStream(conn)
		if err != nil {
			return
		}
		answer := s.answer(message)
		if answer == nil {
			return
		}
		whole := append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)
		if _, err := conn.Write(whole); err != nil {
			return
		}
	}
}

// readStream reads a message with its length in front (RFC 1035, 4.2.2).
func readStream(conn net.Conn) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint16(size[:])
	if n > maxQuestion {
		return nil, errors.New("a question of more than 4 KiB")
	}
	message := make([]byte, n)
	_, err := io.ReadFull(conn, message)
	return message, err
}
