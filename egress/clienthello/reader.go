package clienthello

import "encoding/binary"

// Types of a record, RFC 8446 section 5.1.
const (
	typeChangeCipherSpec = 20
	typeAlert            = 21
	typeHandshake        = 22
	typeApplicationData  = 23
)

// Types of a handshake message.
const (
	messageClientHello = 1
	messageServerHello = 2
)

const recordHeader, messageHeader = 5, 4

// header gathers the five bytes in front of a record.
type header struct {
	raw  [recordHeader]byte
	have int
}

// add takes bytes up to the end of the header and says how many, and whether
// it is whole.
func (h *header) add(b []byte) (n int, whole bool) {
	n = copy(h.raw[h.have:], b)
	h.have += n
	return n, h.have == recordHeader
}

func (h *header) kind() byte  { return h.raw[0] }
func (h *header) length() int { return int(binary.BigEndian.Uint16(h.raw[3:])) }

// Reader puts a ClientHello together from the bytes of a connection. The zero
// value is ready for the first byte.
type Reader struct {
	head    header
	inside  bool // head is whole and left bytes of its record are to come
	left    int
	total   int
	message []byte // handshake bytes so far, over all records
	hello   Hello
	done    bool
	err     error
}

// Feed takes the next bytes. It returns how many of them belong to the hello,
// which is fewer than all only when the hello is complete, and whether it is.
// An error is final and wraps [ErrNotTLS] or [ErrInvalid].
func (r *Reader) Feed(b []byte) (n int, done bool, err error) {
	for n < len(b) && !r.done && r.err == nil {
		n += r.step(b[n:])
	}
	return n, r.done, r.err
}

// Hello is what was read, once Feed has said that it is complete.
func (r *Reader) Hello() Hello { return r.hello }

// step takes bytes of one header or of one record's body.
func (r *Reader) step(b []byte) (n int) {
	if r.inside {
		n = min(r.left, len(b))
		r.message = append(r.message, b[:n]...)
		r.left -= n
		r.err = r.progress()
	} else {
		n = r.stepHeader(b)
	}
	r.total += n
	if r.err == nil && r.total > MaxBytes {
		r.err = invalid("more than %d bytes", MaxBytes)
	}
	return n
}

// stepHeader refuses by the first byte that is wrong, so that a client that
// speaks something else is not waited for.
func (r *Reader) stepHeader(b []byte) int {
	n, whole := r.head.add(b)
	switch raw := r.head.raw; {
	case raw[0] != typeHandshake && len(r.message) > 0:
		r.err = invalid("record of type %d within the hello", raw[0])
	case raw[0] != typeHandshake, r.head.have > 1 && raw[1] != 3:
		r.err = ErrNotTLS
	case !whole:
	case r.head.length() == 0 || r.head.length() > MaxRecord:
		// Servers differ in what an empty fragment is.
		r.err = invalid("record of %d bytes, want 1 to %d", r.head.length(), MaxRecord)
	default:
		r.inside, r.left = true, r.head.length()
	}
	return n
}

func (r *Reader) progress() error {
	if r.message[0] != messageClientHello {
		return invalid("handshake message of type %d, want a ClientHello", r.message[0])
	}
	if r.left == 0 {
		r.inside, r.head = false, header{}
	}
	if len(r.message) < messageHeader {
		return nil
	}
	size := messageHeader + int(binary.BigEndian.Uint32(r.message)&0xffffff)
	switch {
	case size > MaxBytes:
		return invalid("it says that it has %d bytes, want %d at most", size, MaxBytes)
	case len(r.message) > size:
		// A second hello in the same record is read by some servers after a
		// HelloRetryRequest. No client has a reason to send one there.
		return invalid("bytes after the hello in its record")
	case len(r.message) < size || r.left > 0:
		return nil
	}
	return r.finish(r.message[messageHeader:])
}

func (r *Reader) finish(body []byte) (err error) {
	r.hello, err = parse(body)
	r.done = err == nil
	r.message = nil
	return err
}

// Begins tells whether b, one byte at least, begins like TLS and not like a
// protocol of text.
func Begins(b []byte) bool { return len(b) > 0 && b[0] == typeHandshake }
