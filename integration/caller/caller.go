package caller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Verb is the first argument of a test binary that is to be that program.
const Verb = "caller"

// Main does what the arguments say, if the binary was started as that program, and
// says whether it was. It prints a line for each: what it did, and what came of it.
func Main() bool {
	if len(os.Args) < 2 || os.Args[1] != Verb {
		return false
	}
	for _, arg := range os.Args[2:] {
		verb, rest, _ := strings.Cut(arg, " ")
		do, known := verbs[verb]
		if !known {
			fmt.Fprintf(os.Stdout, "%s: there is no such verb\n", arg)
			continue
		}
		fmt.Fprintf(os.Stdout, "%s: %s\n", arg, do(rest))
	}
	return true
}

var verbs = map[string]func(string) string{
	"get":    func(url string) string { return get(url, http.ProxyFromEnvironment, nil) }, // as the variables say
	"direct": func(url string) string { return get(url, nil, nil) },                       // as if there were none
	"unix": func(at string) string {
		proxy := &url.URL{Scheme: "http", Host: "127.0.0.1"}
		return get(at, http.ProxyURL(proxy), func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", "/run/sage/egress.sock")
		})
	},
	"tcp":    func(at string) string { return dial("tcp", at) },
	"udp":    func(at string) string { return dial("udp", at) },
	"lookup": func(name string) string { return lookup(net.DefaultResolver, name) },
	"env":    os.Getenv,
	"read": func(path string) string {
		data, err := os.ReadFile(path)
		return fmt.Sprintf("%q %v", data, err)
	},
	"write": func(path string) string { return fmt.Sprint(os.WriteFile(path, []byte("x"), 0o600)) },
	"hold":  hold,
	"idle":  idle,
	"serve": serve,
	"eat":   eat,
	"probe": probe,
	"touch": touch,
	"sleep": func(text string) string {
		d, _ := time.ParseDuration(text)
		<-time.After(d)
		return "slept"
	},
}

// get prints the status with sage's code and the body, or the error.
func get(url string, proxy func(*http.Request) (*url.URL, error), dial func(context.Context, string, string) (net.Conn, error)) string {
	c := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		Proxy: proxy, DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted()},
		OnProxyConnectResponse: func(_ context.Context, _ *neturl, _ *http.Request, res *http.Response) error {
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("CONNECT: %d %s", res.StatusCode, res.Header.Get("X-Sage-Deny"))
			}
			return nil
		},
	}}
	res, err := c.Get(url) //nolint:noctx // the client has a timeout
	if err != nil {
		return "error: " + err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s%q %v", res.StatusCode, res.Header.Get("X-Sage-Deny"), body, err)
}

type neturl = url.URL

// trusted has the certificate that lies beside the program.
func trusted() *x509.CertPool {
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "ca.pem"))
	pool.AppendCertsFromPEM(pem)
	return pool
}

func lookup(r *net.Resolver, name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // a program has none to take
	defer cancel()
	addrs, err := r.LookupHost(ctx, name)
	return fmt.Sprint(addrs, " ", err)
}

func connect(network, at string, patience time.Duration) (net.Conn, error) {
	return net.DialTimeout(network, at, patience) //nolint:noctx // it is bounded
}

// dial sends a byte, so that UDP too learns whether it may.
func dial(network, at string) string {
	begin := time.Now()
	conn, err := connect(network, at, 3*time.Second)
	if err == nil {
		_, err = conn.Write([]byte("x"))
		_ = conn.Close()
	}
	if err != nil {
		err = bare(err)
	}
	if time.Since(begin) > time.Second {
		return fmt.Sprintf("late: %v", err)
	}
	return fmt.Sprint(err)
}

// hold keeps a connection by the proxy until it ends.
func hold(at string) string {
	conn, err := connect("tcp", "127.0.0.1:3128", 10*time.Second)
	if err != nil {
		return err.Error()
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	fmt.Fprintln(os.Stdout, "holding")
	_, err = io.Copy(io.Discard, conn)
	return fmt.Sprint("ended ", err)
}
