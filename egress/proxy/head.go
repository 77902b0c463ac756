package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// maxHead is the most that a request's head may take, in bytes, the empty line
// at its end included.
const maxHead = 32 << 10

// head is a request line and its fields. No name is there twice.
type head struct {
	method, target string
	minor          byte // of HTTP/1.minor: '0' or '1'
	fields         []field
}

// field is one header field; name is as it was sent.
type field struct{ name, value string }

// errHead is the error for every head that is not exactly what RFC 9112 lets a
// sender generate. What it asks receivers to put up with is refused: a proxy
// and the server behind it that put up with different things are what request
// smuggling needs.
var errHead = errors.New("malformed request")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errHead}, args...)...)
}

// endOfHead finds the end of the head in b, of which the first checked bytes
// were seen by an earlier call. It fails as soon as b can no longer become one,
// so that a client that sends LF alone is not waited for.
func endOfHead(b []byte, checked int) (end int, whole bool, err error) {
	for i := checked; i < len(b); i++ {
		switch {
		case b[i] != '\n':
		case i == 0 || b[i-1] != '\r':
			return 0, false, malformed("saw LF without CR")
		case i >= 3 && b[i-3] == '\r' && b[i-2] == '\n':
			return i + 1, i < maxHead, tooLong(i + 1)
		}
	}
	return 0, false, tooLong(len(b))
}

func tooLong(n int) error {
	if n > maxHead {
		return malformed("head of more than %d bytes", maxHead)
	}
	return nil
}

// parseHead reads what endOfHead has found.
func parseHead(b []byte) (head, error) {
	text, ok := bytes.CutSuffix(b, []byte("\r\n\r\n"))
	if !ok {
		return head{}, malformed("saw no empty line at the end")
	}
	lines := strings.Split(string(text), "\r\n")
	h, err := parseRequestLine(lines[0])
	if err != nil {
		return head{}, err
	}
	seen := make(map[string]bool, len(lines))
	for _, line := range lines[1:] {
		f, err := parseField(line)
		if err != nil {
			return head{}, err
		}
		name := strings.ToLower(f.name)
		if seen[name] {
			return head{}, malformed("saw a field twice")
		}
		seen[name] = true
		h.fields = append(h.fields, f)
	}
	return h, nil
}

func parseRequestLine(line string) (head, error) {
	parts := strings.Split(line, " ")
	switch {
	case len(parts) != 3:
		return head{}, malformed("want METHOD SP TARGET SP VERSION")
	case !isToken(parts[0]):
		return head{}, malformed("method is no token")
	case parts[1] == "" || strings.ContainsFunc(parts[1], notVisible):
		return head{}, malformed("target is empty, or holds a byte that a URL can not")
	case parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0":
		return head{}, malformed("want version HTTP/1.1 or HTTP/1.0")
	}
	return head{method: parts[0], target: parts[1], minor: parts[2][len("HTTP/1.")]}, nil
}

// parseField refuses white space before the colon and folded lines with the
// names that they would make.
func parseField(line string) (field, error) {
	name, value, ok := strings.Cut(line, ":")
	switch {
	case !ok || !isToken(name):
		return field{}, malformed("field without a colon, or with a name that is no token")
	case strings.ContainsFunc(value, isControl):
		return field{}, malformed("control character in the value of a field")
	}
	return field{name, strings.Trim(value, " \t")}, nil
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return notVisible(r) || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func notVisible(r rune) bool { return r <= ' ' || r >= 0x7f }
func isControl(r rune) bool  { return r < ' ' && r != '\t' || r == 0x7f }

// get is the value of a field, by its name in lower case.
func (h *head) get(name string) (value string, ok bool) {
	for _, f := range h.fields {
		if strings.EqualFold(f.name, name) {
			return f.value, true
		}
	}
	return "", false
}
