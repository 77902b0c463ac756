package clienthello

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wire is the bytes that crypto/tls as a client sends first.
func wire(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	config.InsecureSkipVerify = true
	go func() {
		_ = tls.Client(here, config).Handshake()
		_ = here.Close()
	}()
	r := bufio.NewReaderSize(there, MaxBytes)
	head, err := r.Peek(recordHeader)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, recordHeader+int(binary.BigEndian.Uint16(head[3:])))
	if _, err := io.ReadFull(r, raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

func read(raw []byte) (Hello, int, bool, error) {
	var r Reader
	n, done, err := r.Feed(raw)
	return r.Hello(), n, done, err
}

// split cuts the message of one record into records of size bytes.
func split(raw []byte, size int) []byte {
	var out []byte
	for body := raw[recordHeader:]; len(body) > 0; {
		n := min(size, len(body))
		out = append(out, 22, 3, 1, byte(n>>8), byte(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

// ext is one extension.
func ext(kind uint16, data string) string {
	return string([]byte{byte(kind >> 8), byte(kind), byte(len(data) >> 8), byte(len(data))}) + data
}

// names is the content of server_name.
func names(list ...string) string {
	var all string
	for _, name := range list {
		all += "\x00" + string([]byte{byte(len(name) >> 8), byte(len(name))}) + name
	}
	return string([]byte{byte(len(all) >> 8), byte(len(all))}) + all
}

const before = "\x03\x03" + "0123456789abcdef0123456789abcdef" + "\x00" + "\x00\x02\x13\x01" + "\x01\x00"

// record is one ClientHello in one record, with these extensions.
func record(extensions ...string) []byte {
	all := strings.Join(extensions, "")
	return message(before + string([]byte{byte(len(all) >> 8), byte(len(all))}) + all)
}

func message(body string) []byte {
	n := len(body)
	m := string([]byte{1, byte(n >> 16), byte(n >> 8), byte(n)}) + body
	return []byte("\x16\x03\x01" + string([]byte{byte(len(m) >> 8), byte(len(m))}) + m)
}

// Proves: S-084. What real clients send is read, however it is cut: at every
// byte into two segments, byte by byte, and into records of every size.
func TestRealClients(t *testing.T) {
	all := map[string][]byte{
		"crypto/tls":      wire(t, &tls.Config{ServerName: "origin.example"}),
		"crypto/tls, 1.2": wire(t, &tls.Config{ServerName: "origin.example", MaxVersion: tls.VersionTLS12}),
		"long": wire(t, &tls.Config{
			ServerName: "origin.example", NextProtos: []string{strings.Repeat("a", 255), strings.Repeat("b", 255)},
		}),
	}
	maps.Copy(all, captured(t))
	for name, raw := range all {
		t.Run(name, func(t *testing.T) {
			want := Hello{Name: "origin.example"}
			for at := range len(raw) {
				var r Reader
				if n, done, err := r.Feed(raw[:at]); n != at || done || err != nil {
					t.Fatalf("Feed of %d bytes of %d = %d, %v, %v", at, len(raw), n, done, err)
				}
				n, done, err := r.Feed(raw[at:])
				if n != len(raw)-at || !done || err != nil {
					t.Fatalf("split at %d: Feed = %d, %v, %v", at, n, done, err)
				}
				if diff := cmp.Diff(want, r.Hello()); diff != "" {
					t.Fatalf("split at %d (-want +got):\n%s", at, diff)
				}
			}
			for size := 1; size < len(raw); size++ {
				got, _, done, err := read(split(raw, size))
				if got != want || !done || err != nil {
					t.Fatalf("records of %d bytes: %+v, %v, %v", size, got, done, err)
				}
			}
			var r Reader
			for _, b := range raw {
				if _, _, err := r.Feed([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
			if r.Hello() != want {
				t.Errorf("byte by byte: %+v", r.Hello())
			}
		})
	}
}

// captured is what programs sent, kept as seeds of the fuzzer too: OpenSSL 3,
// curl, Node and Java, each with the name origin.example.
func captured(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/fuzz/FuzzDifferential/client-*")
	if err != nil || len(files) == 0 {
		t.Fatalf("seeds: %v, %v", files, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		quoted := strings.TrimSuffix(strings.TrimPrefix(string(text), "go test fuzz v1\n[]byte("), ")\n")
		raw, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = []byte(raw)
	}
	return all
}

// Proves: S-084, G-12. What is refused, and what is only noted.
func TestRead(t *testing.T) {
	grease := ext(0x0a0a, "") + ext(0x1a1a, "\x00")
	long := strings.Repeat("a", 255)
	tests := []struct {
		name string
		raw  []byte
		want Hello
		err  error
	}{
		{"one name", record(ext(0, names("a.example"))), Hello{Name: "a.example"}, nil},
		{"no extensions at all", message(before), Hello{}, nil},
		{"no server_name", record(ext(43, "\x02\x03\x04")), Hello{}, nil},
		{"GREASE", record(grease, ext(0, names("a.example"))), Hello{Name: "a.example"}, nil},
		{"bytes of any kind", record(ext(0, names("a\x00b"))), Hello{Name: "a\x00b"}, nil},
		{"255 bytes", record(ext(0, names(long))), Hello{Name: long}, nil},
		{"256 bytes", record(ext(0, names(long+"a"))), Hello{}, ErrInvalid},
		{"ECH", record(ext(0, names("a.example")), ext(0xfe0d, "\x00")), Hello{"a.example", true}, nil},
		{"ECH of a draft", record(ext(0xfe0a, ""), ext(0, names("a.example"))), Hello{"a.example", true}, nil},
		{"ESNI", record(ext(0xffce, "x")), Hello{"", true}, nil},
		{"post-quantum size", record(ext(51, strings.Repeat("k", 12000)), ext(0, names("a.example"))), Hello{Name: "a.example"}, nil},

		{"two names", record(ext(0, names("a.example", "b.example"))), Hello{}, ErrInvalid},
		{"the same name twice", record(ext(0, names("a.example", "a.example"))), Hello{}, ErrInvalid},
		{"empty name", record(ext(0, names(""))), Hello{}, ErrInvalid},
		{"empty list", record(ext(0, names())), Hello{}, ErrInvalid},
		{"empty server_name", record(ext(0, "")), Hello{}, ErrInvalid},
		{"other type of name", record(ext(0, "\x00\x04\x01\x00\x01a")), Hello{}, ErrInvalid},
		{"bytes after the list", record(ext(0, names("a.example")+"x")), Hello{}, ErrInvalid},
		{"server_name twice", record(ext(0, names("a.example")), ext(0, names("b.example"))), Hello{}, ErrInvalid},
		{"any extension twice", record(ext(43, ""), ext(43, "")), Hello{}, ErrInvalid},
		{"pre_shared_key in front", record(ext(41, ""), ext(0, names("a.example"))), Hello{}, ErrInvalid},
		{"extension cut off", message(before + "\x00\x03\x00\x00\x00"), Hello{}, ErrInvalid},
		{"extensions shorter than said", message(before + "\x00\x03\x00"), Hello{}, ErrInvalid},
		{"bytes after the extensions", message(before + "\x00\x00x"), Hello{}, ErrInvalid},
		{"no suites", message(before[:35] + "\x00\x00\x01\x00"), Hello{}, ErrInvalid},
		{"odd suites", message(before[:35] + "\x00\x01a\x01\x00"), Hello{}, ErrInvalid},
		{"long session id", message(before[:34] + "\x21" + strings.Repeat("s", 33) + "\x00\x02\x13\x01\x01\x00"), Hello{}, ErrInvalid},
		{"cut off in the random", message(before[:20]), Hello{}, ErrInvalid},
		{"second hello in the record", twoInOne(), Hello{}, ErrInvalid},

		{"HTTP", []byte("GET / HTTP/1.1\r\n"), Hello{}, ErrNotTLS},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.2\r\n"), Hello{}, ErrNotTLS},
		{"SSL 2", []byte("\x80\x2e\x01\x03\x01\x00\x15\x00"), Hello{}, ErrNotTLS},
		{"major version 2", []byte("\x16\x02"), Hello{}, ErrNotTLS},
		{"alert first", []byte("\x15\x03\x01\x00\x02\x01\x70"), Hello{}, ErrNotTLS},
		{"ServerHello", []byte("\x16\x03\x01\x00\x04\x02\x00\x00\x00"), Hello{}, ErrInvalid},
		{"empty record", []byte("\x16\x03\x01\x00\x00"), Hello{}, ErrInvalid},
		{"record over the limit", []byte("\x16\x03\x01\x48\x01"), Hello{}, ErrInvalid},
		{"says more than 64 KiB", []byte("\x16\x03\x01\x00\x04\x01\x01\x00\x00"), Hello{}, ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, done, err := read(tt.raw)
			if got != tt.want || !errors.Is(err, tt.err) || done != (tt.err == nil) {
				t.Errorf("got %+v, %v, %v; want %+v, %v", got, done, err, tt.want, tt.err)
			}
		})
	}
}

// twoInOne is a hello with the allowed name and one with another, one record.
func twoInOne() []byte {
	first, second := record(ext(0, names("a.example"))), record(ext(0, names("b.example")))
	both := append(first[recordHeader:len(first):len(first)], second[recordHeader:]...)
	return append([]byte{22, 3, 1, byte(len(both) >> 8), byte(len(both))}, both...)
}

// Records of other types within a hello hide its rest from a parser that skips
// them and from one that does not in different ways.
func TestInterleaved(t *testing.T) {
	raw := split(record(ext(0, names("a.example"))), 20)
	cut := append(raw[:25:25], "\x14\x03\x03\x00\x01\x01"...)
	if _, n, _, err := read(append(cut, raw[25:]...)); !errors.Is(err, ErrInvalid) || n > 30 {
		t.Errorf("error after %d bytes: %v, want ErrInvalid at the header", n, err)
	}
}

// Proves: S-084. Records of one byte each reach the limit before the hello does.
func TestTotal(t *testing.T) {
	raw := split(record(ext(51, strings.Repeat("k", 15000)), ext(0, names("a.example"))), 1)
	if _, n, _, err := read(raw); !errors.Is(err, ErrInvalid) || n > MaxBytes+1 {
		t.Errorf("error after %d bytes: %v, want ErrInvalid at %d", n, err, MaxBytes)
	}
}

// What comes after the hello is not the reader's.
func TestRest(t *testing.T) {
	raw := record(ext(0, names("a.example")))
	got, n, done, err := read(append(slices.Clip(raw), "\x14\x03\x03\x00\x01\x01"...))
	if n != len(raw) || !done || err != nil || got.Name != "a.example" {
		t.Errorf("got %+v after %d bytes of %d, %v, %v", got, n, len(raw), done, err)
	}
}

// stdlib is the name that crypto/tls reads as a server.
func stdlib(raw []byte) (name string, ok bool) {
	stop := errors.New("stop")
	server := tls.Server(&oneWay{raw: raw}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = hello.ServerName, true
			return nil, stop
		},
	})
	_ = server.Handshake()
	return name, ok
}

// oneWay is a connection from which raw can be read.
type oneWay struct {
	net.Conn
	raw []byte
}

func (o *oneWay) Read(b []byte) (int, error) {
	if len(o.raw) == 0 {
		return 0, io.EOF
	}
	n := copy(b, o.raw)
	o.raw = o.raw[n:]
	return n, nil
}

func (o *oneWay) Write(b []byte) (int, error)      { return len(b), nil }
func (o *oneWay) Close() error                     { return nil }
func (o *oneWay) SetDeadline(time.Time) error      { return nil }
func (o *oneWay) SetReadDeadline(time.Time) error  { return nil }
func (o *oneWay) SetWriteDeadline(time.Time) error { return nil }

// stricter are the refusals that are meant where crypto/tls is content.
var stricter = []string{
	"not a TLS handshake", // warning alerts first; record versions below 3
	"session id of more", "list of cipher suites", "list of compression methods",
	"server_name without a host_name", "server_name with more than one", "host_name empty, longer",
	"bytes after the hello", "more than 65536 bytes", "it says that it has",
}

// FuzzDifferential: whatever crypto/tls accepts as a server, we read the same
// name or refuse it for one of the reasons above; and how the bytes are cut
// makes no difference.
//
// Proves: S-084.
func FuzzDifferential(f *testing.F) {
	for _, config := range []*tls.Config{
		{ServerName: "origin.example"},
		{ServerName: "a.b", MaxVersion: tls.VersionTLS12},
		{ServerName: "a.b", NextProtos: []string{"h2"}},
		{ServerName: ""},
	} {
		raw := wire(f, config)
		f.Add(raw)
		f.Add(split(raw, 100))
	}
	f.Add(record(ext(0, names("a.example", "b.example"))))
	f.Add(record(ext(0xfe0d, "\x00"), ext(0, names("a.example"))))
	f.Add(twoInOne())
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, n, done, err := read(raw)
		if name, ok := stdlib(raw); ok {
			switch {
			case done && got.Name != name:
				t.Errorf("read %q, crypto/tls reads %q", got.Name, name)
			case !done && err == nil:
				t.Errorf("want more after what crypto/tls finds complete")
			case err != nil && !meant(err):
				t.Errorf("refused what crypto/tls accepts: %v", err)
			}
		}
		var r Reader
		total := 0
		for i := range raw {
			m, _, _ := r.Feed(raw[i : i+1])
			total += m
		}
		if r.Hello() != got || r.done != done || (r.err == nil) != (err == nil) || err == nil && total != n {
			t.Errorf("byte by byte: %+v, %d, %v, %v; at once %+v, %d, %v, %v", r.Hello(), total, r.done, r.err, got, n, done, err)
		}
	})
}

func meant(err error) bool {
	for _, reason := range stricter {
		if strings.Contains(err.Error(), reason) {
			return true
		}
	}
	return false
}
