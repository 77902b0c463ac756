package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Network says what is to stand between a container and the network. It is
// settled at create; what there is of it then is a [Serving].
type Network struct {
	// Guard is a packet guard on the container's cgroup. There is none where the
	// second seccomp layer lets its programs make no socket of the internet
	// families, and none in the mode unrestricted.
	Guard bool `json:"guard"`
	// Proxy is a bridge in the container's network namespace with a proxy behind it.
	Proxy bool `json:"proxy"`
	// Own says that the network namespace was made for the container, Given that
	// the engine gave one by its path. With neither, it is the host's.
	Own   bool `json:"own"`
	Given bool `json:"given,omitempty"`
	// Transparent are the ports of the path for programs that know of no proxy.
	Transparent []uint16 `json:"transparent,omitempty"`
	// UID and GID are what the bridge and the proxy run as.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
	// Resolver is the file that the engine made for the container's resolv.conf,
	// on the host; "" for none.
	Resolver string `json:"resolver,omitempty"`
	// AuditDir is where the proxy's decisions are written down, "" for nowhere.
	AuditDir string `json:"audit_dir,omitempty"`
}

// Serving is what stands between one container and the network now. Create
// writes it, and start once more.
type Serving struct {
	// Cgroup is the container's own in the tree of cgroup v2, which is not where
	// its limits are on a host that has both versions.
	Cgroup string          `json:"cgroup"`
	Guard  json.RawMessage `json:"guard,omitempty"` // a guard.Record
	Port   uint16          `json:"port,omitempty"`  // of the proxy, on loopback
	Bridge *Process        `json:"bridge,omitempty"`
	Proxy  *Process        `json:"proxy,omitempty"` // from start on
	// DialsFrom is "host" or "engine", as in the proxy's audit lines.
	DialsFrom string `json:"dials_from,omitempty"`
}

// Process identifies one process: a number alone is used again.
type Process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // starttime of proc_pid_stat(5)
}

const servingName = "sage-network.json"

// SaveServing writes s to the container's state directory. A reader sees all of
// it or nothing.
func SaveServing(dir string, s *Serving) error { return create(dir, servingName, s, os.Rename) }

// LoadServing gives what [SaveServing] wrote. That there is none is an error: it
// is asked for where a guard is to be.
func LoadServing(dir string) (*Serving, error) {
	data, err := os.ReadFile(filepath.Join(dir, servingName))
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("saw none, want the record of the container's network")
	}
	s := &Serving{}
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err == nil && !filepath.IsAbs(s.Cgroup) {
		err = fmt.Errorf("cgroup: saw %.64q, want an absolute path", s.Cgroup)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.StateInvalid, "read "+servingName, err)
	}
	return s, nil
}
