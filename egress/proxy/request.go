package proxy

import (
	"errors"
	"strconv"
	"strings"

	"github.com/sage-sandbox/sage/egress"
)

// request is what one head asks for.
type request struct {
	connect bool
	host    egress.Host
	port    uint16
	path    string // origin form; "" for CONNECT
	length  int64  // of the body, in bytes
	forward []field
}

// errExpect is the error for a request with Expect, which no proxy can answer
// without knowing what the origin would.
var errExpect = errors.New("request with Expect")

// parseRequest reads CONNECT and absolute-form requests. Their Host is not
// looked at: the target is what counts (RFC 9112 section 3.2.2), and what goes
// to the origin is rebuilt from it.
func parseRequest(h head) (request, error) {
	length, err := framing(h)
	if err != nil {
		return request{}, err
	}
	if h.method == "CONNECT" {
		return connectRequest(h, length)
	}
	// The scheme is case-insensitive, and only http can be spoken in the clear.
	const scheme = "http://"
	if len(h.target) < len(scheme) || !strings.EqualFold(h.target[:len(scheme)], scheme) {
		return request{}, malformed("want CONNECT host:port, or a target that begins with http://")
	}
	authority, path := cutAuthority(h.target[len(scheme):])
	host, port, err := parseAuthority(authority, 80)
	if err != nil {
		return request{}, err
	}
	return plainRequest(h, host, port, path, length)
}

func connectRequest(h head, length int64) (request, error) {
	if length != 0 {
		return request{}, malformed("CONNECT with a body")
	}
	host, port, err := parseAuthority(h.target, 0)
	return request{connect: true, host: host, port: port}, err
}

// originRequest reads a request as a server gets it: the transparent path's.
func originRequest(h head, port uint16) (request, error) {
	length, err := framing(h)
	if err != nil {
		return request{}, err
	}
	authority, ok := h.get("host")
	if !ok || !strings.HasPrefix(h.target, "/") || h.method == "CONNECT" {
		return request{}, malformed("want a target that begins with / and a Host")
	}
	host, named, err := parseAuthority(authority, 80)
	if err == nil && named != port {
		err = malformed("port in Host is not the one connected to")
	}
	if err != nil {
		return request{}, err
	}
	return plainRequest(h, host, port, h.target, length)
}

func plainRequest(h head, host egress.Host, port uint16, path string, length int64) (request, error) {
	if strings.Contains(path, "#") {
		return request{}, malformed("target with a fragment")
	}
	forward, err := endToEnd(h.fields)
	return request{host: host, port: port, path: path, length: length, forward: forward}, err
}

func cutAuthority(s string) (authority, path string) {
	i := strings.IndexAny(s, "/?#")
	switch {
	case i < 0:
		return s, "/"
	case s[i] == '/':
		return s[:i], s[i:]
	}
	return s[:i], "/" + s[i:]
}

// parseAuthority is [egress.ParseAuthority]; what it refuses is no request.
func parseAuthority(s string, standard uint16) (egress.Host, uint16, error) {
	host, port, err := egress.ParseAuthority(s, standard)
	if err != nil {
		err = malformed("host: %v", err)
	}
	return host, port, err
}

// framing says how long the body is. There is one way to say it.
func framing(h head) (int64, error) {
	for _, name := range []string{"transfer-encoding", "upgrade"} {
		if _, ok := h.get(name); ok {
			return 0, malformed("a request with %s is not for this proxy", name)
		}
	}
	if _, ok := h.get("expect"); ok {
		return 0, errExpect
	}
	text, ok := h.get("content-length")
	if !ok {
		return 0, nil
	}
	if strings.Trim(text, "0123456789") != "" {
		return 0, malformed("Content-Length is no number")
	}
	length, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, malformed("Content-Length is no number")
	}
	return length, nil
}

// hopByHop are the fields that end here, besides those that Connection names.
var hopByHop = []string{
	"host", "connection", "content-length", "proxy-authorization", "proxy-connection", "proxy-authenticate",
	"keep-alive", "te", "trailer",
}

// endToEnd gives the fields that go to the origin; Host, Content-Length and
// Connection are written anew.
func endToEnd(fields []field) ([]field, error) {
	drop := map[string]bool{}
	for _, name := range hopByHop {
		drop[name] = true
	}
	for _, f := range fields {
		if strings.EqualFold(f.name, "connection") {
			if err := dropNamed(drop, f.value); err != nil {
				return nil, err
			}
		}
	}
	var kept []field
	for _, f := range fields {
		if !drop[strings.ToLower(f.name)] {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

func dropNamed(drop map[string]bool, connection string) error {
	for option := range strings.SplitSeq(connection, ",") {
		switch name := strings.ToLower(strings.Trim(option, " \t")); name {
		case "content-length", "host", "transfer-encoding":
			return malformed("Connection names a field that frames or routes the request")
		default:
			drop[name] = true
		}
	}
	return nil
}

// appendHead writes the head that goes to the origin. A client of HTTP/1.0 gets
// an answer of 1.0, since it could not read a chunked one.
func (r *request) appendHead(b []byte, h head, authority string) []byte {
	b = append(b, h.method+" "+r.path+" HTTP/1."...)
	b = append(b, h.minor)
	b = append(b, "\r\nHost: "+authority+"\r\n"...)
	for _, f := range r.forward {
		b = append(b, f.name+": "+f.value+"\r\n"...)
	}
	if _, ok := h.get("content-length"); ok {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, r.length, 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "Connection: close\r\n\r\n"...)
}
