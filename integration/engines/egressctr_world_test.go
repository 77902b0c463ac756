//go:build engines

package engines

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/sage-sandbox/sage/integration/harness"
)

// outsideIP is where every name leads to for the containers of the egressctr and
// egresscri tests: an address on the capsule's lo, so that the capsule is to
// them what the internet is on other days. It is of a range that is for
// documents (RFC 5737), which nothing but the host's file opens.
const outsideIP = "198.51.100.7"

// outsideLine tells a host of the resolver there, and that names may lead there.
const outsideLine = "egress: {nameservers: [\"" + outsideIP + ":53\"], reachable: [" + outsideIP + "]}\n"

// auditDir is the capsule's own; as on any host, sage does not make it.
const auditDir = "/var/log/sage"

// wayOut is a host's file under which bundles may ask for an allowlist, and one
// container of a pod may have the network as it is.
var wayOut = newHostFile("way-out", `version: 1
default_profile: agent
audit_dir: `+auditDir+`
`+special+outsideLine+`profiles:
  agent: {defaults: {resources: {require_hard_limits: false}}}
  open:
    extends: agent
    defaults: {network: {mode: unrestricted, deny_private_networks: false}}
    limits: {network: {modes: [none, unrestricted]}}
`)

// podDNS names no resolver: the pod's own is asked.
var podDNS = newHostFile("pod-dns", harness.SoftAgent+special+"egress: {reachable: ["+outsideIP+"]}\n")

// newOutside brings up the resolver and the servers at their usual ports, and
// gives containerd an image that has curl.
func newOutside(t *testing.T) *harness.World {
	t.Helper()
	needContainerd(t)
	needCurl(t)
	if err := os.MkdirAll(auditDir, 0o700); err != nil {
		t.Fatal(err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	address, err := netlink.ParseAddr(outsideIP + "/32")
	if err == nil {
		err = netlink.AddrAdd(lo, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.AddrDel(lo, address); err != nil {
			t.Error(err)
		}
	})
	w := harness.NewWorld(t, harness.WorldOptions{IP: outsideIP, Resolver: outsideIP + ":53", HTTPS: 443, HTTP: 80})
	if t.Failed() {
		t.FailNow()
	}
	return w
}

var curlImported struct {
	once sync.Once
	err  error
}

// needCurl gives containerd the image, in both of the ring's namespaces.
func needCurl(t *testing.T) {
	t.Helper()
	curlImported.once.Do(func() { curlImported.err = importCurl(harness.WorldCA(t)) })
	if err := curlImported.err; err != nil {
		t.Fatal(err)
	}
}

func importCurl(ca []byte) error {
	rootfs, err := os.ReadFile(rootfsTar())
	if err != nil {
		return err
	}
	tree, err := harness.CurlTree(rootfs, ca)
	if err != nil {
		return err
	}
	return errors.Join(
		theRing.importImage(theRing.name, harness.CurlImage, tree, []string{"sh"}),
		theRing.importImage("k8s.io", harness.CurlImage, tree, []string{"sh"}),
	)
}
