package clienthello

// A server may answer a hello with HelloRetryRequest, and then reads a second
// one, which could ask for another name. Client and Server watch the two
// directions of a connection until no second hello can come: a record of type
// 22 of the client is held until it is known to be a hello with the same name.
// Change-cipher-spec and early data go by in between (RFC 8446 D.4 and 4.2.10),
// so looking at the next record alone is not enough.

// retryRandom is the random of a ServerHello that is a HelloRetryRequest, RFC
// 8446 section 4.1.3.
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// Answer is what a server said to the first hello.
type Answer uint8

const (
	// Unknown is the answer that has not come yet.
	Unknown Answer = iota
	// Retry asks for a second hello.
	Retry
	// Accepted is a ServerHello: no hello in the clear can follow.
	Accepted
)

// Server finds the answer in what the server sends. The zero value is ready for
// the first byte.
type Server struct {
	head    header
	left    int
	message []byte // the first bytes of the first handshake message
	answer  Answer
}

// serverHelloStart is what it takes to tell the two answers apart: handshake
// header, version, random.
const serverHelloStart = messageHeader + 2 + len(retryRandom)

// Feed takes the next bytes; they may be passed on to the client once the
// result has been acted on. Once it is not Unknown there is nothing to feed.
// The error is for a server that does not speak TLS.
func (s *Server) Feed(b []byte) (Answer, error) {
	for len(b) > 0 && s.answer == Unknown {
		if s.head.have < recordHeader {
			n, whole := s.head.add(b)
			b = b[n:]
			if !whole {
				continue
			}
			if s.left = s.head.length(); !s.plausible() {
				return Unknown, ErrNotTLS
			}
		}
		n := min(s.left, len(b))
		if s.head.kind() == typeHandshake {
			s.message = append(s.message, b[:min(n, serverHelloStart-len(s.message))]...)
		}
		b, s.left = b[n:], s.left-n
		if s.left == 0 {
			s.head = header{}
		}
		if err := s.judge(); err != nil {
			return Unknown, err
		}
	}
	return s.answer, nil
}

// plausible passes alerts besides the handshake: some servers warn that they do
// not know the name before they answer all the same.
func (s *Server) plausible() bool {
	kind := s.head.kind()
	return (kind == typeHandshake || kind == typeAlert) && s.head.raw[1] == 3 && s.left > 0 && s.left <= MaxRecord
}

func (s *Server) judge() error {
	switch {
	case len(s.message) > 0 && s.message[0] != messageServerHello:
		return ErrNotTLS
	case len(s.message) < serverHelloStart:
		return nil
	case string(s.message[serverHelloStart-len(retryRandom):]) == retryRandom:
		s.answer = Retry
	default:
		s.answer = Accepted
	}
	s.message = nil
	return nil
}

// Client watches what a client sends after its first hello, until the server
// has accepted that or a second one has passed. The zero value is ready for the
// first byte after the first hello.
type Client struct {
	head   header
	left   int // of the body of a record that goes by
	second Reader
	held   []byte // what second has read
	done   bool
}

// Feed takes the next bytes and returns those that may go to the server now:
// b, the front of it, or more when bytes that were held have been found good.
// check judges a second hello. An error is final; it is check's own, or wraps
// [ErrNotTLS] or [ErrInvalid].
func (c *Client) Feed(b []byte, check func(Hello) error) (pass []byte, err error) {
	if c.done {
		return b, nil
	}
	n, err := c.goBy(b)
	if err != nil || n == len(b) {
		return b[:n], err
	}
	released, err := c.hold(b[n:], check)
	if err != nil || len(released) == 0 {
		return b[:n], err
	}
	return append(b[:n:n], released...), nil
}

// Done says that a second hello has passed, after which none can follow.
func (c *Client) Done() bool { return c.done }

// Holding says that a part of a handshake message is held. It came before the
// server had answered, so it is to be checked whatever the answer is.
func (c *Client) Holding() bool { return len(c.held) > 0 }

// goBy returns how many bytes come before a handshake record.
func (c *Client) goBy(b []byte) (n int, err error) {
	for n < len(b) {
		if c.left > 0 {
			skip := min(c.left, len(b)-n)
			n, c.left = n+skip, c.left-skip
			continue
		}
		if c.Holding() || c.head.have == 0 && b[n] == typeHandshake {
			return n, nil
		}
		taken, whole := c.head.add(b[n:])
		n += taken
		if err := c.plausible(whole); err != nil {
			return 0, err
		}
		if whole {
			c.left, c.head = c.head.length(), header{}
		}
	}
	return n, nil
}

func (c *Client) plausible(whole bool) error {
	kind, major := c.head.kind(), c.head.raw[1]
	switch {
	case kind != typeChangeCipherSpec && kind != typeAlert && kind != typeApplicationData:
		return invalid("record of type %d after the hello", kind)
	case c.head.have > 1 && major != 3, whole && c.head.length() > MaxRecord:
		return invalid("record header after the hello is not one of TLS")
	}
	return nil
}

// hold keeps the bytes of a second hello until it has been checked.
func (c *Client) hold(b []byte, check func(Hello) error) (released []byte, err error) {
	n, done, err := c.second.Feed(b)
	if err != nil {
		return nil, err
	}
	c.held = append(c.held, b[:n]...)
	if !done {
		return nil, nil
	}
	if err := check(c.second.Hello()); err != nil {
		return nil, err
	}
	released, c.held, c.done = append(c.held, b[n:]...), nil, true
	return released, nil
}
