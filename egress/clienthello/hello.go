// Package clienthello reads the first message of a TLS connection as a server
// would, to learn which name the client asks for. It is stricter than the
// servers behind it: what two of them could read in two ways is refused, since
// the name that is checked must be the name that is served.
//
// It decrypts nothing, writes nothing and keeps no connection: bytes go in as
// they arrive, in pieces of any size.
package clienthello

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// MaxRecord is the most that the body of one record may hold, in bytes: the
	// 2^14 of RFC 8446 and the slack that TLS 1.2 gave for compression.
	MaxRecord = 18 << 10
	// MaxBytes is the most that a hello may take on the wire, its record headers
	// included. A hello with post-quantum key shares takes 2 KiB.
	MaxBytes = 64 << 10
)

// Hello is what a ClientHello says of where it wants to go.
type Hello struct {
	// Name is the one host_name of server_name as it was sent, of any bytes but
	// 255 of them at most; "" if the extension is not there.
	Name string
	// ECH says that a second name may be hidden in this hello: Encrypted Client
	// Hello (0xFE0D), one of its drafts, or its predecessor ESNI. A client
	// without a key sends the extension too, with random content (GREASE, RFC
	// 9849); from outside the two are the same.
	ECH bool
}

var (
	// ErrNotTLS is the error for bytes that no TLS client begins with.
	ErrNotTLS = errors.New("not a TLS handshake")
	// ErrInvalid is the error for a hello that is malformed, too large, or could
	// be read in more than one way.
	ErrInvalid = errors.New("ClientHello refused")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

const (
	extServerName   = 0
	extPreSharedKey = 41
	extESNI         = 0xffce
	extECHFirst     = 0xfe08 // drafts 08 to 13 and RFC 9849
	extECHLast      = 0xfe0d
)

// parse reads the body of a ClientHello, without the four bytes of the
// handshake header.
func parse(body []byte) (Hello, error) {
	s := bytes(body)
	extensions, err := s.skipToExtensions()
	if err != nil {
		return Hello{}, err
	}
	return parseExtensions(extensions)
}

// skipToExtensions holds the fixed part to the lengths of RFC 8446 section
// 4.1.2. A hello that ends before the extensions is legal up to TLS 1.2.
func (s *bytes) skipToExtensions() (bytes, error) {
	if !s.skip(2 + 32) { // version, random
		return nil, invalid("it ends before the session id")
	}
	session, ok := s.vector8()
	if !ok || len(session) > 32 {
		return nil, invalid("session id of more than 32 bytes, or cut off")
	}
	suites, ok := s.vector16()
	if !ok || len(suites) == 0 || len(suites)%2 != 0 {
		return nil, invalid("list of cipher suites empty, odd, or cut off")
	}
	compression, ok := s.vector8()
	if !ok || len(compression) == 0 {
		return nil, invalid("list of compression methods empty or cut off")
	}
	if len(*s) == 0 {
		return nil, nil
	}
	extensions, ok := s.vector16()
	if !ok || len(*s) != 0 {
		return nil, invalid("length of the extensions is not what is there")
	}
	return extensions, nil
}

func parseExtensions(s bytes) (Hello, error) {
	var hello Hello
	// A hello has about 15 extensions; 64 KiB of empty ones are 16384.
	seen := make(map[uint16]bool, 24)
	for len(s) > 0 {
		kind, ok := s.uint16()
		if !ok {
			return Hello{}, invalid("an extension is cut off")
		}
		data, ok := s.vector16()
		switch {
		case !ok:
			return Hello{}, invalid("extension %d is cut off", kind)
		case seen[kind]:
			// Which of the two a server takes is its own choice.
			return Hello{}, invalid("extension %d twice", kind)
		case kind == extPreSharedKey && len(s) > 0:
			return Hello{}, invalid("pre_shared_key is not the last extension")
		}
		seen[kind] = true
		if err := hello.take(kind, data); err != nil {
			return Hello{}, err
		}
	}
	return hello, nil
}

func (h *Hello) take(kind uint16, data bytes) error {
	if kind == extServerName {
		name, err := serverName(data)
		h.Name = name
		return err
	}
	if kind == extESNI || kind >= extECHFirst && kind <= extECHLast {
		h.ECH = true
	}
	return nil
}

// serverName wants exactly one entry of type host_name. RFC 6066 has room for
// other types; none was ever defined, and servers differ in what they do.
func serverName(data bytes) (string, error) {
	list, ok := data.vector16()
	if !ok || len(data) != 0 {
		return "", invalid("length of server_name is not what is there")
	}
	kind, ok := list.uint8()
	if !ok || kind != 0 {
		return "", invalid("server_name without a host_name in front")
	}
	name, ok := list.vector16()
	switch {
	case !ok || len(name) == 0 || len(name) > 255:
		return "", invalid("host_name empty, longer than 255 bytes, or cut off")
	case len(list) != 0:
		return "", invalid("server_name with more than one name")
	}
	return string(name), nil
}

// bytes is what is left of a message. Its methods take from the front and say
// whether there was enough.
type bytes []byte

func (s *bytes) skip(n int) bool {
	_, ok := s.take(n)
	return ok
}

func (s *bytes) take(n int) (bytes, bool) {
	if len(*s) < n {
		return nil, false
	}
	head := (*s)[:n]
	*s = (*s)[n:]
	return head, true
}

func (s *bytes) uint8() (uint8, bool) {
	b, ok := s.take(1)
	if !ok {
		return 0, false
	}
	return b[0], true
}

func (s *bytes) uint16() (uint16, bool) {
	b, ok := s.take(2)
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint16(b), true
}

// vector8 takes a vector with a length of one byte in front.
func (s *bytes) vector8() (bytes, bool) {
	n, ok := s.uint8()
	if !ok {
		return nil, false
	}
	return s.take(int(n))
}

// vector16 takes a vector with a length of two bytes in front.
func (s *bytes) vector16() (bytes, bool) {
	n, ok := s.uint16()
	if !ok {
		return nil, false
	}
	return s.take(int(n))
}
