package runtime

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// URLAnswer says whether a program under a policy may connect to a URL.
type URLAnswer struct {
	URL string `json:"url"` // scheme, host and port; a path decides nothing
	egress.Decision
	// Address is what is left to be decided where the host is a name: nothing
	// is looked up here.
	Address string `json:"address,omitempty"`
}

// addressLater is the answer about the addresses of a name. One that is given
// as such has been checked.
const addressLater = "checked when it is dialled"

// ExplainURLs asks the policy of a profile about URLs, and where profile is ""
// that of the bundle in dir. Annotations are what a bundle would carry, with
// their whole keys. It decides by the code that the proxy decides by.
func (h *Host) ExplainURLs(profile, dir string, annotations map[string]string, urls []string) ([]URLAnswer, error) {
	host, err := h.Policy()
	if err != nil {
		return nil, err
	}
	s := &specs.Spec{}
	if profile == "" {
		b, err := (&Launch{Host: h, ID: "policy", Bundle: dir}).loadBundle()
		if err != nil {
			return nil, err
		}
		s = b.spec
	} else if host, err = host.With(profile); err != nil {
		return nil, err
	}
	s.Annotations = merged(s.Annotations, annotations)
	r, err := spec.Resolve(host, s)
	if err != nil {
		return nil, err
	}
	return answerURLs(r.Policy, urls)
}

func merged(annotations, more map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, annotations)
	maps.Copy(out, more)
	return out
}

func answerURLs(policy spec.Policy, urls []string) ([]URLAnswer, error) {
	p, err := spec.EgressPolicy(policy)
	if err != nil {
		return nil, err
	}
	if policy.Compat {
		p.Mode = egress.ModeUnrestricted
	}
	env, err := addressEnv(policy.Network.Reachable)
	if err != nil {
		return nil, err
	}
	answers := make([]URLAnswer, len(urls))
	for i, url := range urls {
		answers[i] = answerURL(p, env, url)
	}
	return answers, nil
}

// addressEnv is what addresses are judged by on this host now.
func addressEnv(reachable []string) (egress.Env, error) {
	var env egress.Env
	for _, text := range reachable {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return egress.Env{}, fmt.Errorf("egress.reachable: %w", err)
		}
		env.Reachable = append(env.Reachable, prefix)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return egress.Env{}, fmt.Errorf("list the host's addresses: %w", err)
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			env.HostAddrs = append(env.HostAddrs, prefix.Addr())
		}
	}
	return env, nil
}

func answerURL(p egress.Policy, env egress.Env, url string) URLAnswer {
	q, err := urlRequest(url)
	if err != nil {
		return URLAnswer{URL: quoted(url), Decision: egress.Decision{Code: errcode.EgressBadRequest, Reason: err.Error()}}
	}
	a := URLAnswer{URL: requestText(q), Decision: egress.Decide(p, q)}
	switch {
	case !a.Allow || p.Mode == egress.ModeUnrestricted:
	case q.Host.IsIP():
		if d := egress.CheckAddr(p, q.Host, q.Host.Addr(), env); !d.Allow {
			a.Decision = d
		}
	default:
		a.Address = addressLater
	}
	return a
}

// quoted is a text that is no URL of ours, without what might be a password and
// without bytes that would be something else on a terminal.
func quoted(url string) string {
	if at := strings.LastIndexByte(url, '@'); at >= 0 {
		url = "..." + url[at:]
	}
	return fmt.Sprintf("%.100q", url)
}

// urlRequest is what a client that knows its proxy asks it for: a tunnel for
// https and what lies on top of it, one request for http.
func urlRequest(url string) (egress.Request, error) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return egress.Request{}, errors.New("saw no scheme, want https://HOST, http://HOST or tcp://HOST:PORT")
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	asked, known := urlSchemes[strings.ToLower(scheme)]
	if !known {
		return egress.Request{}, errors.New("saw another scheme, want https, wss, http or tcp; the proxy speaks no ws")
	}
	h, port, err := egress.ParseAuthority(authority, asked.port)
	return egress.Request{Scheme: asked.scheme, Host: h, Port: port, Kind: egress.KindProxy}, err
}

// urlSchemes are those of URLs, with what is asked of the proxy for each and
// the port where the URL has none.
var urlSchemes = map[string]struct {
	scheme string
	port   uint16
}{
	"https": {egress.SchemeTunnel, 443}, "wss": {egress.SchemeTunnel, 443}, "http": {egress.SchemeHTTP, 80}, "tcp": {egress.SchemeTCP, 0},
}

func requestText(q egress.Request) string {
	scheme := q.Scheme
	if scheme == egress.SchemeTunnel {
		scheme = egress.SchemeHTTPS
	}
	return scheme + "://" + net.JoinHostPort(q.Host.String(), strconv.Itoa(int(q.Port)))
}
