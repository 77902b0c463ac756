package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// readAll runs both parsers over a whole request.
func readAll(text string) (head, request, string, error) {
	end, whole, err := endOfHead([]byte(text), 0)
	if err != nil {
		return head{}, request{}, "", err
	}
	if !whole {
		return head{}, request{}, "", errors.New("not whole")
	}
	h, err := parseHead([]byte(text[:end]))
	if err != nil {
		return h, request{}, "", err
	}
	r, err := parseRequest(h)
	return h, r, text[end:], err
}

// Proves: S-082, S-083. What goes to the origin for what came in.
func TestForwarded(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{
			"Host is rebuilt, hop-by-hop fields end here",
			"GET http://h.example/a?b=c HTTP/1.1\r\nHost: evil.example\r\nUser-Agent: x\r\nProxy-Connection: keep-alive\r\n" +
				"Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Drop\r\nX-Drop: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\nX-Keep: \t2 \r\n\r\n",
			"GET /a?b=c HTTP/1.1\r\nHost: h.example\r\nUser-Agent: x\r\nX-Keep: 2\r\nConnection: close\r\n\r\n",
		},
		{"scheme and port in any case", "GET HTTP://h.example:8080 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n"},
		{"query without a path", "GET http://h.example?q HTTP/1.0\r\n\r\n", "GET /?q HTTP/1.0\r\nHost: h.example\r\nConnection: close\r\n\r\n"},
		{
			"length is written anew", "POST http://h.example/ HTTP/1.1\r\ncontent-length: 007\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: h.example\r\nContent-Length: 7\r\nConnection: close\r\n\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, r, _, err := readAll(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.appendHead(nil, h, "h.example")); got != tt.want {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

// Proves: S-083, field 196. Requests that two parsers could read in two ways.
func TestRequestRefused(t *testing.T) {
	get := "GET http://h.example/ HTTP/1.1\r\n"
	tests := map[string]string{
		"CL and TE":                   get + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"TE":                          get + "Transfer-Encoding: chunked\r\n\r\n",
		"TE with a tab":               get + "Transfer-Encoding:\tidentity\r\n\r\n",
		"CL twice":                    get + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
		"CL twice, the same":          get + "Content-Length: 5\r\ncontent-length: 5\r\n\r\n",
		"CL list":                     get + "Content-Length: 5, 5\r\n\r\n",
		"CL signed":                   get + "Content-Length: +5\r\n\r\n",
		"CL negative":                 get + "Content-Length: -5\r\n\r\n",
		"CL hex":                      get + "Content-Length: 0x5\r\n\r\n",
		"CL empty":                    get + "Content-Length:\r\n\r\n",
		"CL too large":                get + "Content-Length: 99999999999999999999\r\n\r\n",
		"LF alone":                    "GET http://h.example/ HTTP/1.1\n\n",
		"LF alone in a field":         get + "A: b\nX: y\r\n\r\n",
		"LF LF at the end":            get + "A: b\r\n\nGET / HTTP/1.1\r\n\r\n",
		"CR alone in a field":         get + "A: b\rX: y\r\n\r\n",
		"CR CR LF":                    get + "A: b\r\r\n\r\n",
		"NUL in a value":              get + "A: b\x00c\r\n\r\n",
		"DEL in a value":              get + "A: b\x7f\r\n\r\n",
		"folded":                      get + "A: b\r\n c\r\n\r\n",
		"folded with a tab":           get + "A: b\r\n\tTransfer-Encoding: chunked\r\n\r\n",
		"folded first":                get + " A: b\r\n\r\n",
		"space before the colon":      get + "Content-Length : 5\r\n\r\n",
		"no colon":                    get + "A\r\n\r\n",
		"empty name":                  get + ": b\r\n\r\n",
		"name of other bytes":         get + "A\xc4: b\r\n\r\n",
		"any field twice":             get + "Cookie: a\r\nCookie: b\r\n\r\n",
		"Host twice":                  get + "Host: h.example\r\nHost: evil.example\r\n\r\n",
		"upgrade":                     get + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"Connection names length":     get + "Connection: close, Content-Length\r\nContent-Length: 5\r\n\r\n",
		"Connection names Host":       get + "Connection: host\r\n\r\n",
		"empty line first":            "\r\n" + get + "\r\n",
		"two spaces":                  "GET  http://h.example/ HTTP/1.1\r\n\r\n",
		"tab":                         "GET\thttp://h.example/ HTTP/1.1\r\n\r\n",
		"space in the target":         "GET http://h.example/a b HTTP/1.1\r\n\r\n",
		"four parts":                  "GET http://h.example/ HTTP/1.1 HTTP/1.1\r\n\r\n",
		"version 2":                   "PRI * HTTP/2.0\r\n\r\n",
		"version 0.9":                 "GET http://h.example/\r\n\r\n",
		"version 1.2":                 "GET http://h.example/ HTTP/1.2\r\n\r\n",
		"lower-case version":          "GET http://h.example/ http/1.1\r\n\r\n",
		"bad method":                  "G@T http://h.example/ HTTP/1.1\r\n\r\n",
		"origin form":                 "GET / HTTP/1.1\r\nHost: h.example\r\n\r\n",
		"asterisk":                    "OPTIONS * HTTP/1.1\r\nHost: h.example\r\n\r\n",
		"scheme https":                "GET https://h.example/ HTTP/1.1\r\n\r\n",
		"scheme ftp":                  "GET ftp://h.example/ HTTP/1.1\r\n\r\n",
		"scheme without slashes":      "GET http:h.example/ HTTP/1.1\r\n\r\n",
		"fragment":                    "GET http://h.example/#a HTTP/1.1\r\n\r\n",
		"fragment at once":            "GET http://h.example#@evil.example/ HTTP/1.1\r\n\r\n",
		"no host":                     "GET http:///a HTTP/1.1\r\n\r\n",
		"byte above ASCII":            "GET http://h.example/\xff HTTP/1.1\r\n\r\n",
		"port 0":                      "GET http://h.example:0/ HTTP/1.1\r\n\r\n",
		"port with a zero":            "GET http://h.example:080/ HTTP/1.1\r\n\r\n",
		"port too large":              "GET http://h.example:65536/ HTTP/1.1\r\n\r\n",
		"empty port":                  "GET http://h.example:/ HTTP/1.1\r\n\r\n",
		"signed port":                 "GET http://h.example:+80/ HTTP/1.1\r\n\r\n",
		"bare IPv6":                   "GET http://::1/ HTTP/1.1\r\n\r\n",
		"CONNECT without a port":      "CONNECT h.example HTTP/1.1\r\n\r\n",
		"CONNECT with a body":         "CONNECT h.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
		"CONNECT with TE":             "CONNECT h.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"head over the limit":         get + "A: " + strings.Repeat("a", maxHead) + "\r\n\r\n",
		"head over the limit, no end": get + "A: " + strings.Repeat("a", maxHead),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if _, r, _, err := readAll(text); !errors.Is(err, errHead) {
				t.Errorf("got %+v, %v; want it refused", r, err)
			}
		})
	}
	if _, _, _, err := readAll(get + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"); !errors.Is(err, errExpect) {
		t.Errorf("Expect: %v", err)
	}
}

// Proves: S-083. The head is found and judged in the same way however it is cut.
func TestHeadSplit(t *testing.T) {
	for _, text := range []string{
		"GET http://h.example/ HTTP/1.1\r\nA: b\r\n\r\nrest", "GET http://h.example/ HTTP/1.1\r\nA: b\n\r\n\r\n", "\r\n\r\n",
	} {
		end, whole, err := endOfHead([]byte(text), 0)
		for at := range len(text) {
			gotEnd, gotWhole, gotErr := endOfHead([]byte(text[:at]), 0)
			if !gotWhole && gotErr == nil {
				gotEnd, gotWhole, gotErr = endOfHead([]byte(text), at)
			}
			if gotEnd != end || gotWhole != whole || (gotErr == nil) != (err == nil) {
				t.Errorf("%q cut at %d: %d, %v, %v; want %d, %v, %v", text, at, gotEnd, gotWhole, gotErr, end, whole, err)
			}
		}
	}
}

func TestLimitOfHead(t *testing.T) {
	const line = "GET http://h.example/ HTTP/1.1\r\nA: "
	for _, size := range []int{maxHead - 1, maxHead, maxHead + 1} {
		text := line + strings.Repeat("a", size-len(line)-4) + "\r\n\r\n"
		_, _, _, err := readAll(text)
		if (err == nil) != (size <= maxHead) {
			t.Errorf("head of %d bytes: %v", size, err)
		}
	}
}

// FuzzRequest: what passes has one reading. A parser that looks for what we
// removed finds nothing, and the head that is written is one that we take.
func FuzzRequest(f *testing.F) {
	f.Add("GET http://h.example/a HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n")
	f.Add("CONNECT h.example:443 HTTP/1.1\r\n\r\n")
	f.Add("POST http://[::1]:80/ HTTP/1.0\r\nContent-Length: 3\r\nConnection: x, y\r\nx: 1\r\n\r\nabc")
	f.Fuzz(func(t *testing.T, text string) {
		h, r, _, err := readAll(text)
		if err != nil || r.connect {
			return
		}
		out := string(r.appendHead(nil, h, "h.example"))
		end, whole, err := endOfHead([]byte(out), 0)
		if err != nil || !whole || end != len(out) && len(out) <= maxHead {
			t.Fatalf("%q became %q: %d, %v, %v", text, out, end, whole, err)
		}
		again, err := parseHead([]byte(out))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		for _, f := range again.fields {
			switch strings.ToLower(f.name) {
			case "transfer-encoding", "upgrade", "expect", "proxy-authorization", "te", "keep-alive":
				t.Fatalf("%q became %q", text, out)
			}
		}
		length, err := framing(again)
		if host, _ := again.get("host"); host != "h.example" || err != nil || length != r.length {
			t.Fatalf("%q became %q: %s, %d, %v", text, out, host, length, err)
		}
	})
}

// Proves: E-065, G-06. Every spelling that some resolver takes for an address,
// and every name that is none, is refused before anything is asked or dialled.
func TestHostsRefused(t *testing.T) {
	p := start(t, options{allow: []string{"h.example"}, ports: []uint16{443, 80}})
	long := strings.Repeat("a.", 127) + "example"
	hosts := []string{
		"127.1", "127.0.1", "0x7f000001", "0x7f.0.0.1", "017700000001", "0177.0.0.1", "2130706433", "127.0.0.1.", "0", "0.0.0.0",
		"10.0.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "100.64.0.1", "168.63.129.16",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fe80::1%25eth0]",
		"[fe80::1%eth0]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[h.example]", "[127.0.0.1]", "08.0.0.1", "1.2.3.4.5", "0x7g",
		"localhost", "h.example@evil.example", "evil.example@h.example", "h.example%00.evil.example", "h.example\\.evil.example",
		"h_.example", "-h.example", "h-.example", ".h.example", "h..example", "h.example..", "*.example", "*", "x.h.example", "evilh.example",
		"h.example.evil.example", "xn--h.example", "%68.example", "h%2eexample", long, strings.Repeat("a", 64) + ".example",
	}
	for _, host := range hosts {
		for _, request := range []string{
			fmt.Sprintf("CONNECT %s:443 HTTP/1.1\r\n\r\n", host), fmt.Sprintf("GET http://%s/ HTTP/1.1\r\n\r\n", host),
		} {
			status, code, body := p.ask(request)
			if status != 403 || !strings.HasPrefix(code, "sandbox.egress_") {
				t.Errorf("%q: %d, %q, %q", request, status, code, body)
			}
		}
	}
	// Bytes that cannot stand in a request line at all.
	for _, host := range []string{"h.example\x00", "h.ex\u0430mple", "\uff11\uff12\uff17.1", "h.example\t"} {
		if status, code, _ := p.ask(fmt.Sprintf("CONNECT %s:443 HTTP/1.1\r\n\r\n", host)); status != 403 || code != "sandbox.egress_bad_request" {
			t.Errorf("%q: %d, %s", host, status, code)
		}
	}
	if asked := p.names.questions(); len(asked) != 0 {
		t.Errorf("the nameserver was asked %q", asked)
	}
}
