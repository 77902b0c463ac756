package clients

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/integration/harness"
)

// program is a client: testdata/NAME.sh fetches something from the host that is
// its argument.
type program struct {
	name string
	host string // without .test
	what string // it is, for people
	// proxied is false for one that takes the transparent path although the
	// variables are set, as it does not know them.
	proxied bool
	// denied and unresolved are what it says of a host that is not allowed: by the
	// proxy, and by the transparent path.
	denied, unresolved string
	note               string
}

const (
	named     = "Forbidden (sandbox.egress_host_denied)" // the first line of the proxy's answer
	temporary = "Temporary failure in name resolution"   // EAI_AGAIN of getaddrinfo(3)
)

var list = []program{
	{"curl", "www", "curl, https", true, "CONNECT tunnel failed, response 403", "Could not resolve host", "`curl -v` shows the code"},
	{"curl-http", "www", "curl, http", true, "(sandbox.egress_host_denied)", "Could not resolve host", ""},
	{"wget", "www", "wget", true, named, "unable to resolve host address", ""},
	{"git", "git", "git clone, https", true, "CONNECT tunnel failed, response 403", "Could not resolve host", "`GIT_CURL_VERBOSE=1` shows the code"},
	{"git-ssh", "ssh", "git clone, ssh", false, "Could not resolve hostname", "Could not resolve hostname", "needs a rule `tcp://HOST:22`; by the proxy with a ProxyCommand (`testdata/connect.sh`)"},
	{"pip", "pip", "pip install", true, named, temporary, "tries six times unless `PIP_RETRIES` says otherwise"},
	{"python", "www", "Python's urllib", true, named, temporary, ""},
	{"npm", "npm", "npm install", true, named, "EAI_AGAIN", ""},
	{"node-fetch", "www", "Node's fetch", false, "EAI_AGAIN", "EAI_AGAIN", "Debian's Node 18 knows no proxy; Node 24 goes by it, since `NODE_USE_ENV_PROXY` is set (tried by hand, WebSocket too), and says `Request was cancelled` where it is denied; nodejs.org's build needs `NODE_EXTRA_CA_CERTS` for a private CA"},
	{"apt", "apt", "apt-get update, install", true, named, "Temporary failure resolving", "in `agent`: `APT::Sandbox::User \"root\"`, and both folders `partial` made anew"},
	{"go-get", "go", "go get", true, named, "server misbehaving", ""},
	{"go-program", "www", "a Go program", true, named, "server misbehaving", ""},
	{"cargo", "cargo", "cargo fetch, sparse registry", true, "CONNECT tunnel failed, response 403", "Could not resolve host", "`CARGO_HTTP_DEBUG=true` shows the code"},
	{"maven", "maven", "mvn validate", true, named, temporary, "by `JAVA_TOOL_OPTIONS`; from Maven 3.9 on also `-Daether.connector.http.useSystemProperties=true`, else the transparent path"},
	{"java-url", "www", "Java's URL", true, named, "UnknownHostException: denied.test", "by `JAVA_TOOL_OPTIONS`"},
	{"java-client", "www", "Java's HttpClient", true, "Tunnel failed, got: 403", "UnresolvedAddressException", "by `JAVA_TOOL_OPTIONS`"},
	{"java-wss", "www", "Java's WebSocket, wss", true, "Tunnel failed, got: 403", "UnresolvedAddressException", "by `JAVA_TOOL_OPTIONS`"},
	{"psql", "db", "psql", false, temporary, temporary, "needs a rule `tcp://HOST:5432`; knows no proxy"},
}

var update = flag.Bool("update", false, "write the table of README.md again")

// TestReadme: the table that people read is the list that the test holds.
func TestReadme(t *testing.T) {
	harness.ReadmeTable(t, "the list", markdown(), *update)
}

func markdown() string {
	var b strings.Builder
	b.WriteString("| client | with the variables | denied, by the proxy | denied, by the transparent path | to know |\n| --- | --- | --- | --- | --- |\n")
	for _, p := range list {
		way := "by the proxy"
		if !p.proxied {
			way = "by the transparent path"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | `%s` | %s |\n", p.what, way, p.denied, p.unresolved, p.note)
	}
	return b.String()
}
