package clienthello

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
)

var (
	ccs       = "\x14\x03\x03\x00\x01\x01"
	earlyData = "\x17\x03\x03\x00\x04data"
	alert     = "\x15\x03\x03\x00\x02\x01\x70"
)

var errOther = errors.New("another name")

// same is what a caller checks: the name of the first hello again, no ECH.
func same(h Hello) error {
	if h.Name != "a.example" || h.ECH {
		return errOther
	}
	return nil
}

// Proves: attack 11, G-13. The second hello is found behind records that are no
// handshake, is checked, and not a byte of it passes before that.
func TestSecondHello(t *testing.T) {
	good, bad := string(record(ext(0, names("a.example")))), string(record(ext(0, names("b.example"))))
	hidden := string(record(ext(0, names("a.example")), ext(0xfe0d, "")))
	keyExchange := "\x16\x03\x03\x00\x04\x10\x00\x00\x00"
	tests := []struct {
		name, sent, passes string
		err                error
	}{
		{"records 20 and 22, the same name", ccs + good, ccs + good, nil},
		{"records 20 and 22, another name", ccs + bad, ccs, errOther},
		{"22 at once, another name", bad, "", errOther},
		{"early data, then another name", earlyData + ccs + earlyData + bad, earlyData + ccs + earlyData, errOther},
		{"alert between", alert + bad, alert, errOther},
		{"ECH in the second", ccs + hidden, ccs, errOther},
		{"no name in the second", string(record()), "", errOther},
		{"cut into records", ccs + string(split([]byte(bad), 7)), ccs, errOther},
		{"cut, good", ccs + string(split([]byte(good), 7)), ccs + string(split([]byte(good), 7)), nil},
		{"cut with a record between", string(split([]byte(good), 20)[:25]) + ccs, "", ErrInvalid},
		{"what follows a good one", good + earlyData + keyExchange, good + earlyData + keyExchange, nil},
		{"other handshake before the answer", keyExchange, "", ErrInvalid},
		{"no record type", "\x40\x03\x03\x00\x01\x01", "", ErrInvalid},
		{"record over the limit", "\x17\x03\x03\x48\x01", "\x17\x03\x03\x48", ErrInvalid},
		{"not finished", ccs + good[:len(good)-1], ccs, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.sent); size++ {
				got, err := feed(tt.sent, size)
				if !errors.Is(err, tt.err) {
					t.Fatalf("pieces of %d: error %v, want %v", size, err, tt.err)
				}
				// Pieces that hold the record with the error may take bytes in front
				// of it with them: less passes, never more.
				if got != tt.passes && (err == nil || !strings.HasPrefix(tt.passes, got)) {
					t.Fatalf("pieces of %d: passed %q, want %q", size, got, tt.passes)
				}
			}
		})
	}
}

func feed(sent string, size int) (passed string, err error) {
	var c Client
	for b := []byte(sent); len(b) > 0; {
		n := min(size, len(b))
		pass, err := c.Feed(b[:n:n], same)
		passed += string(pass)
		if err != nil {
			return passed, err
		}
		b = b[n:]
	}
	return passed, nil
}

// serverHello is one with this random.
func serverHello(random string) string {
	return "\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03" + random + "\x00\x13\x01\x00"
}

// Proves: G-13.
func TestAnswer(t *testing.T) {
	plain := strings.Repeat("r", 32)
	tests := []struct {
		name, sent string
		want       Answer
		err        error
	}{
		{"accepted", serverHello(plain), Accepted, nil},
		{"retry", serverHello(retryRandom), Retry, nil},
		{"retry, cut into records", string(split([]byte(serverHello(retryRandom)), 3)), Retry, nil},
		{"a warning first", alert + serverHello(retryRandom), Retry, nil},
		{"almost retry", serverHello(retryRandom[:31] + "x"), Accepted, nil},
		{"not whole", serverHello(retryRandom)[:42], Unknown, nil},
		{"another message", "\x16\x03\x03\x00\x01\x01", Unknown, ErrNotTLS},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n", Unknown, ErrNotTLS},
		{"data first", earlyData, Unknown, ErrNotTLS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.sent); size++ {
				var s Server
				var got Answer
				var err error
				for b := []byte(tt.sent); len(b) > 0 && got == Unknown && err == nil; {
					n := min(size, len(b))
					got, err = s.Feed(b[:n])
					b = b[n:]
				}
				if got != tt.want || !errors.Is(err, tt.err) {
					t.Fatalf("pieces of %d: %v, %v; want %v, %v", size, got, err, tt.want, tt.err)
				}
			}
		})
	}
}

// Proves: attack 11. A HelloRetryRequest between the client and the server of
// crypto/tls is recognised, and the second hello passes.
func TestRetryForReal(t *testing.T) {
	for _, tt := range []struct {
		name string
		want Answer
		only tls.CurveID
	}{{"retry", Retry, tls.CurveP256}, {"accepted", Accepted, tls.X25519}} {
		t.Run(tt.name, func(t *testing.T) {
			answer, done := exchange(t, tt.only)
			if answer != tt.want || done != (tt.want == Retry) {
				t.Errorf("answer %v, second hello seen %v; want %v", answer, done, tt.want)
			}
		})
	}
}

// exchange joins a client that sends a share of X25519 to a server that wants
// only, with both watchers between them.
func exchange(t *testing.T, only tls.CurveID) (Answer, bool) {
	t.Helper()
	client, left := net.Pipe()
	right, server := net.Pipe()
	var answer Answer
	var watch Client
	up := make(chan struct{})
	go func() {
		defer close(up)
		defer right.Close()
		var first Reader
		pump(right, left, func(b []byte) ([]byte, error) {
			n, _, err := first.Feed(b)
			if err != nil || n == len(b) {
				return b, err
			}
			return watch.Feed(b[n:], same)
		})
	}()
	go func() {
		defer left.Close()
		var s Server
		pump(left, right, func(b []byte) (_ []byte, err error) {
			if answer == Unknown {
				answer, err = s.Feed(b)
			}
			return b, err
		})
	}()
	go func() {
		_ = tls.Server(server, &tls.Config{
			Certificates: []tls.Certificate{certificate(t)}, CurvePreferences: []tls.CurveID{only},
		}).Handshake()
	}()
	err := tls.Client(client, &tls.Config{
		ServerName: "a.example", InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	}).Handshake()
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	<-up
	return answer, watch.Done()
}

func pump(dst io.Writer, src io.Reader, through func([]byte) ([]byte, error)) {
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		if err != nil {
			return
		}
		pass, err := through(b[:n])
		if err != nil {
			return
		}
		if _, err := dst.Write(pass); err != nil {
			return
		}
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// FuzzSecond: however the bytes after a first hello are cut, what has passed is
// a prefix of them, and a hello with another name is never part of it.
func FuzzSecond(f *testing.F) {
	f.Add([]byte(ccs+string(record(ext(0, names("a.example"))))), uint8(3))
	f.Add([]byte(earlyData+ccs+string(record(ext(0, names("b.example"))))), uint8(9))
	f.Fuzz(func(t *testing.T, sent []byte, size uint8) {
		whole, wholeErr := feed(string(sent), max(1, len(sent)))
		cut, cutErr := feed(string(sent), max(1, int(size)))
		if (wholeErr == nil) != (cutErr == nil) || wholeErr == nil && whole != cut {
			t.Errorf("at once %q, %v; in pieces of %d %q, %v", whole, wholeErr, size, cut, cutErr)
		}
		for _, passed := range []string{whole, cut} {
			if !strings.HasPrefix(string(sent), passed) {
				t.Errorf("passed %q of %q", passed, sent)
			}
		}
	})
}
