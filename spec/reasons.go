package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// resolution turns what was settled into the policy, and tells it in the order
// of the configuration.
func (r *resolver) resolution(profileSource string) Resolution {
	p := r.hostPolicy()
	reasons := []Reason{{Field: keyProfile, Value: r.profile.Name, Source: profileSource, Ceiling: listText(r.AllowedProfiles)}}
	for _, s := range settings {
		out := r.settled[s.key]
		if !out.unset {
			// The host's own lists must not be reachable through the policy.
			out.list = slices.Clone(out.list)
			s.set(&p, out.value)
		}
		reasons = append(reasons, Reason{Field: s.key, Value: s.settledText(out), Source: out.source, Ceiling: out.ceiling})
	}
	r.Egress.fill(&p.Network)
	return Resolution{Policy: p, Reasons: append(reasons, r.hostReasons(p.Network)...)}
}

// settledText tells what holds where nobody has said anything.
func (s setting) settledText(out outcome) string {
	switch {
	case !out.unset:
		return s.text(out.value)
	case s.key == keyEnv:
		return "any"
	case s.form == formFlag:
		return "false" // the policy's zero value
	}
	return "none"
}

// hostPolicy is the part of a policy that the profile does not decide. Lists
// are never nil where nil would be another JSON: the digest is over that.
func (r *resolver) hostPolicy() Policy {
	return Policy{
		Profile: r.profile.Name,
		Network: Network{AllowedHosts: []string{}, DeniedHosts: []string{}, AllowedPorts: []uint16{}, AllowedSchemes: []string{}},
		Process: Process{
			Capabilities: []string{}, CommandPath: r.CommandPath,
			ExecutionUID: clonePtr(r.ExecutionUID), ExecutionGID: clonePtr(r.ExecutionGID),
		},
		Files: Files{
			ReadPaths: filled(r.ReadPaths), WritePaths: filled(r.WritePaths), ProtectedPaths: []string{},
			Devices: filled(r.Devices), SharedNamespaces: filled(r.SharedNamespaces),
			Hooks: filled(r.Hooks), InitBinaries: filled(r.InitBinaries),
		},
	}
}

func filled[T any](list []T) []T { return append(make([]T, 0, len(list)), list...) }

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// bundlePath is told where the host has no command_path.
const bundlePath = "the bundle's own"

func (r *resolver) hostReasons(n Network) []Reason {
	var devices []string
	for _, d := range r.Devices {
		devices = append(devices, d.String())
	}
	path := r.CommandPath
	if path == "" {
		path = bundlePath
	}
	reasons := []Reason{
		{Field: "linux_execution_uid", Value: formatUint32(r.ExecutionUID)},
		{Field: "linux_execution_gid", Value: formatUint32(r.ExecutionGID)},
		{Field: "command_path", Value: path},
		{Field: "read_paths", Value: listText(r.ReadPaths)},
		{Field: "write_paths", Value: listText(r.WritePaths)},
		{Field: "devices", Value: listText(devices)},
		{Field: "shared_namespaces", Value: listText(r.SharedNamespaces)},
		{Field: "hooks", Value: listText(r.Hooks)},
		{Field: "init_binaries", Value: listText(r.InitBinaries)},
		{Field: "egress.nameservers", Value: listText(n.Nameservers)},
		{Field: "egress.reachable", Value: listText(n.Reachable)},
		{Field: "egress.java_tool_options", Value: strconv.FormatBool(n.JavaToolOptions)},
	}
	for i := range reasons {
		reasons[i].Source = "host"
		if v := reasons[i].Value; v == "none" || v == bundlePath {
			reasons[i].Source = notSet
		}
	}
	return reasons
}

// String is the device as ls -l would have it.
func (d Device) String() string { return fmt.Sprintf("%s %s %d:%d", d.Path, d.Type, d.Major, d.Minor) }

// only tells whether s holds no other bytes than those of set.
func only(s, set string) bool { return strings.Trim(s, set) == "" }
