package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// refusal is why a connection goes no further.
type refusal struct {
	status int // of HTTP, as long as an answer in HTTP is possible
	code   errcode.Code
	rule   string
	reason string // for the client and the audit: it repeats nothing that came in
}

func (r *refusal) Error() string { return r.reason }

// denied is a refusal by the policy. What cannot be read is denied with the
// same status: to a client there is no difference that it could use.
func denied(code errcode.Code, reason string) *refusal {
	return &refusal{status: 403, code: code, reason: reason}
}

func byDecision(d egress.Decision) *refusal {
	return &refusal{status: 403, code: d.Code, rule: d.Rule, reason: d.Reason}
}

// overLimit is a refusal that another try later may not meet.
func overLimit(reason string) *refusal {
	return &refusal{status: 503, code: errcode.EgressLimitExceeded, reason: reason}
}

// failed is for what is allowed and did not work.
func failed(code errcode.Code, doing string, err error) *refusal {
	if isTimeout(err) {
		return &refusal{status: 504, code: errcode.EgressTimeout, reason: doing + " took too long"}
	}
	return &refusal{status: 502, code: code, reason: doing + " failed"}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// asRefusal is the refusal in err; the way of every connection ends in one, or
// in none.
func asRefusal(err error) *refusal {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, errExpect):
		return &refusal{status: 417, code: errcode.EgressBadRequest, reason: "Expect is not supported; send the request without it"}
	case errors.Is(err, errHead):
		return denied(errcode.EgressBadRequest, err.Error())
	case isTimeout(err):
		return &refusal{status: 408, code: errcode.EgressTimeout, reason: "the client took too long"}
	}
	return &refusal{status: 502, code: errcode.EgressConnectFailed, reason: "the connection broke"}
}

// statusText is of the statuses above, and no others.
var statusText = map[int]string{
	403: "Forbidden", 408: "Request Timeout", 417: "Expectation Failed",
	502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}

// response is the answer in HTTP: short, and legible to people and programs. Its
// first line has the code too, as many programs show nothing else of an answer to
// CONNECT.
func (r *refusal) response(target string) []byte {
	body := fmt.Sprintf("sage: %s: %s (%s)\n", target, r.reason, r.code)
	return []byte("HTTP/1.1 " + strconv.Itoa(r.status) + " " + statusText[r.status] + " (" + string(r.code) + ")" +
		"\r\nContent-Type: text/plain; charset=utf-8\r\nX-Sage-Deny: " + string(r.code) +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nConnection: close\r\n\r\n" + body)
}

// Alerts of TLS, RFC 8446 section 6.2.
const (
	alertAccessDenied     = 49
	alertDecodeError      = 50
	alertInternalError    = 80
	alertUnrecognizedName = 112
)

// alert is the answer in TLS: a fatal alert in the clear, which every client
// that waits for a ServerHello can read. A client that speaks something else
// gets none.
func (r *refusal) alert() []byte {
	if r.code == errcode.EgressNotTLS || r.code == errcode.EgressTimeout {
		return nil
	}
	description, ok := alertOf[r.code]
	if !ok {
		description = alertAccessDenied
	}
	return []byte{21, 3, 3, 0, 2, 2, description}
}

var alertOf = map[errcode.Code]byte{
	errcode.EgressHelloInvalid:    alertDecodeError,
	errcode.EgressSNIMissing:      alertUnrecognizedName,
	errcode.EgressSNIMismatch:     alertUnrecognizedName,
	errcode.EgressResolveFailed:   alertInternalError,
	errcode.EgressConnectFailed:   alertInternalError,
	errcode.EgressUpstreamRefused: alertInternalError,
}
