//go:build kernel

package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// clientVerb makes the test binary a program in a container: it does each of
// its arguments and prints a line for it.
const clientVerb = "client"

var verbs = map[string]func(string) string{
	"get":    func(url string) string { return get(url, http.ProxyFromEnvironment, nil) }, // as the variables say
	"direct": func(url string) string { return get(url, nil, nil) },                       // as if there were none
	"unix": func(url string) string {
		return get(url, http.ProxyURL(mustURL("http://127.0.0.1")), func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", "/run/sage/egress.sock")
		})
	},
	"tcp": func(at string) string { return dial("tcp", at) },
	"udp": func(at string) string { return dial("udp", at) },
	"lookup": func(name string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		addrs, err := net.DefaultResolver.LookupHost(ctx, name)
		return fmt.Sprint(addrs, " ", err)
	},
	"env": os.Getenv,
	"read": func(path string) string {
		data, err := os.ReadFile(path)
		return fmt.Sprintf("%q %v", data, err)
	},
	"write": func(path string) string { return fmt.Sprint(os.WriteFile(path, []byte("x"), 0o600)) },
	"hold":  hold,
	"sleep": func(text string) string {
		d, _ := time.ParseDuration(text)
		time.Sleep(d)
		return "slept"
	},
}

func client(args []string) {
	for _, arg := range args {
		verb, rest, _ := strings.Cut(arg, " ")
		fmt.Printf("%s: %s\n", arg, verbs[verb](rest))
	}
}

// get prints the status with sage's code and the body, or the error.
func get(url string, proxy proxyFunc, dial dialFunc) string {
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "ca.pem"))
	pool.AppendCertsFromPEM(pem)
	c := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		Proxy: proxy, DialContext: dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool},
		OnProxyConnectResponse: func(_ context.Context, _ *neturl, _ *http.Request, res *http.Response) error {
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("CONNECT: %d %s", res.StatusCode, res.Header.Get("X-Sage-Deny"))
			}
			return nil
		},
	}}
	res, err := c.Get(url)
	if err != nil {
		return "error: " + err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s%q %v", res.StatusCode, res.Header.Get("X-Sage-Deny"), body, err)
}

// dial sends a byte, so that UDP too learns whether it may.
func dial(network, at string) string {
	begin := time.Now()
	conn, err := net.DialTimeout(network, at, 3*time.Second)
	if err == nil {
		_, err = conn.Write([]byte("x"))
		_ = conn.Close()
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	if errno != 0 {
		err = errno
	}
	if time.Since(begin) > time.Second {
		return fmt.Sprintf("late: %v", err)
	}
	return fmt.Sprint(err)
}

// hold keeps a connection by the proxy until it ends.
func hold(at string) string {
	conn, err := net.Dial("tcp", "127.0.0.1:3128")
	if err != nil {
		return err.Error()
	}
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	fmt.Println("holding")
	_, err = io.Copy(io.Discard, conn)
	return fmt.Sprint("ended ", err)
}
