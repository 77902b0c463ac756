package spec

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sage-sandbox/sage/egress"
)

// The words of a list of few, in the order from strictest to loosest.
var (
	modes   = []string{string(NetworkNone), string(NetworkAllowlist), string(NetworkProxy), string(NetworkUnrestricted)}
	listens = []string{string(ListenDeny), string(ListenLoopback), string(ListenAny)}
	schemes = []string{egress.SchemeHTTP, egress.SchemeHTTPS}
	dials   = []string{string(DialEngine), string(DialAuto), string(DialHost)}
	echs    = []string{string(egress.ECHRefuse), string(egress.ECHOuter)}
)

func oneWord(s string, of []string) (string, error) {
	if !slices.Contains(of, s) {
		return "", errNotOne(of)
	}
	return s, nil
}

func parseMode(s string) (string, error)   { return oneWord(s, modes) }
func parseListen(s string) (string, error) { return oneWord(s, listens) }
func parseScheme(s string) (string, error) { return oneWord(s, schemes) }
func parseDial(s string) (string, error)   { return oneWord(s, dials) }
func parseECH(s string) (string, error)    { return oneWord(s, echs) }

func parseHostRule(s string) (string, error) {
	r, err := egress.ParseRule(s)
	return r.String(), err
}

// parseDeniedHost: an address is denied whatever name leads to it, when it is
// not known any more what port that is for.
func parseDeniedHost(s string) (string, error) {
	r, err := egress.ParseRule(s)
	if err == nil && r.IsIP() && (r.Port() != 0 || r.Scheme() != "") {
		err = errors.New("saw an address with a scheme or a port, want it alone: it is denied on all of them")
	}
	return r.String(), err
}

func parsePort(s string) (string, error) {
	n, ok := decimal(s)
	if !ok || n < 1 || n > 65535 {
		return "", errors.New("saw no port, want a whole number from 1 to 65535")
	}
	return s, nil
}

// parseProxyURL reads the origin of an upstream proxy (S-066). No message
// repeats it: a password in it is the likeliest of its mistakes.
func parseProxyURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", errors.New("saw no URL, want http://HOST:PORT or https://HOST:PORT")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("saw another scheme, want http or https; SOCKS is not spoken")
	case u.User != nil:
		return "", errors.New("saw a user or password, want none: they would stand in files and messages")
	case u.Opaque != "" || u.Path != "" && u.Path != "/" || strings.ContainsAny(s, "?#"):
		return "", errors.New("saw a path, query or fragment, want the origin alone")
	}
	return proxyOrigin(u)
}

func proxyOrigin(u *url.URL) (string, error) {
	host, err := egress.ParsePattern(u.Hostname())
	if err != nil {
		return "", fmt.Errorf("host: %w", err)
	}
	if strings.HasPrefix(host.String(), "*") {
		return "", errors.New("host: saw a wildcard, want one host")
	}
	port := u.Port()
	if port == "" && !strings.HasSuffix(u.Host, ":") {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if port, err = parsePort(port); err != nil {
		return "", fmt.Errorf("port: %w", err)
	}
	name := host.String()
	if strings.Contains(name, ":") {
		name = "[" + name + "]"
	}
	return u.Scheme + "://" + name + ":" + port, nil
}

// parseEnvName holds a variable's name to POSIX (S-038), and keeps away from
// those by which libcontainer's init takes orders from its parent.
func parseEnvName(s string) (string, error) {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	switch {
	case s == "" || strings.Trim(s, first+"0123456789") != "" || !strings.ContainsRune(first, rune(s[0])):
		return "", errors.New("saw no name of an environment variable, want letters, digits and underscores, and no digit first")
	case strings.HasPrefix(s, "_LIBCONTAINER_"):
		return "", errors.New("saw a name beginning with _LIBCONTAINER_, which no container may have")
	}
	return s, nil
}

// cleanPath is a path that is its own shortest form: two spellings of a path
// would make two entries, and a prefix of one says nothing about the other.
func cleanPath(s string) error {
	switch {
	case s == "":
		return errors.New("saw an empty path, want an absolute one")
	case strings.ContainsFunc(s, unicode.IsControl) || !utf8.ValidString(s):
		// JSON, in which the state keeps a policy, has no other text than UTF-8.
		return errors.New("saw a NUL or another control character in a path, or a text that is not UTF-8")
	case !path.IsAbs(s):
		return errors.New("saw a relative path, want an absolute one")
	case path.Clean(s) != s:
		return errors.New("saw a path that is not in its shortest form, want no //, no . or .. and no / at the end")
	}
	return nil
}

// below tells whether name is dir or lies under it.
func below(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// hostDirectory is a directory of the host that containers get to see: not the
// whole of it, and nothing of the kernel's.
func hostDirectory(s string) error {
	if err := cleanPath(s); err != nil {
		return err
	}
	if s == "/" {
		return errors.New("saw /, want a directory below it")
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run/sage"} {
		if below(s, dir) {
			return fmt.Errorf("saw a path below %s, which containers get from sage alone", dir)
		}
	}
	return nil
}

// systemDirectories are where nobody's own files lie, and mounts over which
// would decide what programs a container runs (S-111).
var systemDirectories = []string{"usr", "bin", "sbin", "lib", "lib64", "dev", "proc", "sys", "tmp"}

// parseProtectedPath reads a path in the container that is to stay as it is
// below a writable mount (S-118, S-119).
func parseProtectedPath(s string) (string, error) {
	if err := cleanPath(s); err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(s[1:], "/")
	switch {
	case s == "/":
		return "", errors.New("saw /, want a path below it; files.readonly_root protects all of it")
	case slices.Contains(systemDirectories, first):
		return "", fmt.Errorf("saw a path below /%s, which is not the place of anybody's own files", first)
	case !norm.NFC.IsNormalString(s):
		return "", errors.New("saw letters in a decomposed form, want Unicode's form NFC: a program would write them so")
	}
	return s, nil
}

// parseCommandPath is S-030: a PATH without an element that means "here".
func parseCommandPath(s string) error {
	for i, dir := range strings.Split(s, ":") {
		if err := cleanPath(dir); err != nil {
			return fmt.Errorf("directory %d: %w", i+1, err)
		}
	}
	return nil
}

func listText(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// namesOf drops the values of NAME=value, which nobody else is to read.
func namesOf(pairs []string) []string {
	names := make([]string, len(pairs))
	for i, pair := range pairs {
		names[i], _, _ = strings.Cut(pair, "=")
	}
	return names
}

// formatUint32 is for ids, which have no setting of their own.
func formatUint32(n *uint32) string {
	if n == nil {
		return "none"
	}
	return strconv.FormatUint(uint64(*n), 10)
}
