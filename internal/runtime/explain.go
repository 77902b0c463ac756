package runtime

import (
	"cmp"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/quota/readback"
	"github.com/sage-sandbox/sage/spec"
)

// Explanation is what would be enforced, and why.
type Explanation struct {
	spec.Resolution
	Digest  string             `json:"policy_digest"`
	Changes []hardening.Change `json:"changes,omitempty"`
	Filter  *FilterSummary     `json:"seccomp_layer2,omitempty"`
	// NoInet and NoUnix say why no sockets of the internet families and of
	// AF_UNIX can be made, "" where they can; for a bundle only.
	NoInet string `json:"no_inet_sockets,omitempty"`
	NoUnix string `json:"no_unix_sockets,omitempty"`
	// Network is what would stand between the bundle and the network.
	Network *NetworkSummary `json:"network,omitempty"`
	// Disk is where the disk limit would be held; for a bundle only.
	Disk *DiskSummary `json:"disk,omitempty"`
	// Above are limits of cgroups above the bundle's that are lower than its own.
	Above []readback.Lower `json:"limits_above,omitempty"`
	// Refusal is why create would not make the container, "" if it would.
	Refusal string       `json:"refusal,omitempty"`
	Code    errcode.Code `json:"code,omitempty"`
}

// FilterSummary names a second seccomp layer.
type FilterSummary struct {
	Instructions int    `json:"instructions"`
	SHA256       string `json:"sha256"`
}

// ExplainProfile settles the policy that a bundle which asks for nothing would
// get under a profile of the host's configuration.
func (h *Host) ExplainProfile(host *spec.Host, name string) (*Explanation, error) {
	host, err := host.With(name)
	if err != nil {
		return nil, err
	}
	r, err := spec.Resolve(host, &specs.Spec{})
	if err != nil {
		return nil, err
	}
	e := explain(r)
	l := &Launch{Host: h, ID: "check"}
	e.refuse(cmp.Or(l.enforceable(r.Policy), l.checkHardLimits(host, r.Policy, belowRoot(host))))
	return e, nil
}

// ExplainBundle judges a bundle as create would, and makes nothing.
func (h *Host) ExplainBundle(dir string) (*Explanation, error) {
	host, err := h.Policy()
	if err != nil {
		return nil, err
	}
	l := &Launch{Host: h, ID: "policy", Bundle: dir}
	b, err := l.loadBundle()
	if err != nil {
		return nil, err
	}
	r, err := spec.Resolve(host, b.spec)
	if err != nil {
		return nil, err
	}
	e := explain(r)
	a, err := l.resolve(host, b)
	e.refuse(err)
	if a != nil {
		defer a.close()
		e.Changes = a.result.Changes
		e.NoInet, e.NoUnix = a.result.Network.NoInet, a.result.Network.NoUnix
		e.Network, e.Disk = a.networkSummary(), a.diskSummary()
		if e.Above, err = l.limitsAbove(a.result.Spec); err != nil {
			return nil, err
		}
		e.Filter = &FilterSummary{a.result.Filter.Len(), a.result.Filter.Digest()}
	}
	return e, nil
}

func explain(r spec.Resolution) *Explanation {
	return &Explanation{Resolution: r, Digest: r.Policy.Digest()}
}

func (e *Explanation) refuse(err error) {
	if err != nil && !e.Policy.Compat {
		e.Refusal, e.Code = err.Error(), errcode.Of(err)
	}
}
