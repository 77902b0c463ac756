package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// ConfigVersion is of the two documents below. Both programs are installed
// together; a container may outlive the sage-runtime that made it, its proxy
// and bridge do not outlive their own configuration.
const ConfigVersion = 1

// ConfigFD is the descriptor of the socket on which a process gets its document.
const ConfigFD = 3

// BridgeConfig is the document of "sage-egress bridge". Numbers named FD and
// the like are places among the descriptors that come with it, -1 for none.
type BridgeConfig struct {
	Version   int              `json:"version"`
	Ready     int              `json:"ready"`   // pipe: one byte once it accepts
	Control   int              `json:"control"` // listening SOCK_SEQPACKET, to which a proxy's connection comes
	Events    int              `json:"events"`  // cgroup.events of the container: it ends when that is empty
	Listeners []BridgeListener `json:"listeners"`
	DNS       int              `json:"dns"` // the stub resolver's UDP socket, handed to the proxy
	// PeerCgroup is the id of the cgroup at or below which a peer's socket must
	// be; 0 serves all, in a network namespace of the container's own.
	PeerCgroup uint64 `json:"peer_cgroup"`
	Diag       int    `json:"diag"` // NETLINK_SOCK_DIAG socket of that namespace
	// Container is the id, for messages.
	Container string `json:"container"`
}

// BridgeListener is a listening socket and what comes in by it.
type BridgeListener struct {
	FD   int  `json:"fd"`
	Kind Kind `json:"kind"`
}

// ProxyConfig is the document of "sage-egress proxy".
type ProxyConfig struct {
	Version int `json:"version"`
	Ready   int `json:"ready"`
	Control int `json:"control"` // connected to the bridge
	Events  int `json:"events"`
	// Audit are two files open for append, written by turns: the other one is
	// truncated when one has reached AuditMax bytes. Empty is no audit.
	Audit    []int `json:"audit"`
	AuditMax int64 `json:"audit_max"`
	Counters int   `json:"counters"` // file of CountersSize bytes, mapped shared
	// Container is the id, for the audit.
	Container   string           `json:"container"`
	Policy      Policy           `json:"policy"`
	Nameservers []netip.AddrPort `json:"nameservers"`
	HostAddrs   []netip.Addr     `json:"host_addrs"` // the host's own, as of start
	Reachable   []netip.Prefix   `json:"reachable"`  // the host file's exceptions
	DialsFrom   string           `json:"dials_from"` // "host" or "engine", for the audit
	Roots       []byte           `json:"roots"`      // PEM, for an https upstream proxy
}

// Decode reads one of the documents. It takes only what [json.Marshal] writes,
// so that a key that is unknown, spelled in another case or given twice is an
// error: encoding/json would let the last two pass.
func Decode[T BridgeConfig | ProxyConfig | Policy](data []byte) (T, error) {
	var v, none T
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return none, fmt.Errorf("read configuration: %w", err)
	}
	again, err := json.Marshal(v)
	if err != nil {
		return none, fmt.Errorf("read configuration: %w", err)
	}
	if !bytes.Equal(again, bytes.TrimRight(data, "\n")) {
		return none, errors.New("read configuration: saw JSON in another form than sage-runtime writes, or of another version")
	}
	return v, nil
}
