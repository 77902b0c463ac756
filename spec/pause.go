package spec

import (
	"github.com/opencontainers/runtime-spec/specs-go"
)

// PauseAnnotations are those by which containerd and CRI-O say that a container
// is the one of a pod that runs nothing and holds its namespaces: it is, where
// one of them has the value "sandbox".
var PauseAnnotations = []string{"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"}

// IsPause says whether s is such a container. Any bundle can carry the
// annotation, so nothing may be opened for it.
func IsPause(s *specs.Spec) bool {
	for _, key := range PauseAnnotations {
		if s.Annotations[key] == "sandbox" {
			return true
		}
	}
	return false
}

// closePause takes away the proxy of a container that would never ask it: the
// annotations of a pod are for all of its containers, this one too. What they
// ask for has been checked as anyone's. A mode without a proxy is left alone.
func (r *resolver) closePause() {
	if mode := r.mode(); mode != NetworkAllowlist && mode != NetworkProxy {
		return
	}
	out := r.settled[keyMode]
	out.s, out.source = string(NetworkNone), "the container that holds a pod's namespaces connects to nothing"
	r.settled[keyMode] = out
}
