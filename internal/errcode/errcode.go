// Package errcode names the failures that sage reports for reasons of its own.
//
// A code is a promise: scripts and dashboards match on it, so codes are only
// ever added. It is not the place for failures that runc has too: those keep
// runc's phrases, which engines match as text, and carry no code.
package errcode

import (
	"errors"
	"fmt"
)

// Code is the stable name of one kind of failure.
type Code string

const (
	// BundleInvalid occurs when config.json is missing, unreadable, empty, too
	// large, of the wrong type in some field, or of an unknown OCI version.
	//
	// Fix: correct the field that the message names; "sage-runtime spec" writes
	// a config.json that is valid.
	BundleInvalid Code = "sandbox.bundle_invalid"

	// ConfigInvalid occurs when the host's configuration file is not what it
	// should be, or lies where a container could write it.
	//
	// Fix: correct the line and key that the message names; "sage-runtime check"
	// reads the file without starting anything.
	ConfigInvalid Code = "sandbox.config_invalid"

	// AnnotationInvalid occurs when a sage.sandbox annotation is unknown, not
	// for this host, malformed, or contradicts another value of the bundle.
	//
	// Fix: correct the annotation; "sage-runtime policy --bundle DIR" lists what
	// there is.
	AnnotationInvalid Code = "sandbox.annotation_invalid"

	// LimitExceeded occurs when a bundle asks for more than the host's ceiling.
	//
	// Fix: ask for less, or raise the profile's limits in the host's file.
	LimitExceeded Code = "sandbox.limit_exceeded"

	// ProfileUnavailable occurs when a bundle names a profile that the host does
	// not have or does not let bundles choose.
	//
	// Fix: name one that "sage-runtime check" lists, or add it to the host's file.
	ProfileUnavailable Code = "sandbox.profile_unavailable"

	// PermissionDenied occurs when a bundle or an exec asks for something that
	// the policy refuses: a mount, a device, a namespace, a capability, a user.
	//
	// Fix: leave it away, or allow it in the host's file where there is a key
	// for it; the message names it.
	PermissionDenied Code = "sandbox.permission_denied"

	// ResourceLimitsUnsupported occurs when hard limits are required and this
	// host, or this version, cannot enforce one of them.
	//
	// Fix: prepare the host, see "sage-runtime check", or set
	// resources.require_hard_limits to false in the host's file.
	ResourceLimitsUnsupported Code = "sandbox.resource_limits_unsupported"

	// CapabilityUnsupported occurs when the policy needs something that this
	// host or this version of sage does not have.
	//
	// Fix: choose a profile or a mode that does without it; the message names it.
	CapabilityUnsupported Code = "sandbox.capability_unsupported"

	// ArchUnsupported occurs when the processor is one for which sage has no
	// table of system calls.
	//
	// Fix: run it on amd64 or arm64, or under the profile compat.
	ArchUnsupported Code = "sandbox.arch_unsupported"

	// EnforcementFailed occurs when the kernel, asked before the program begins,
	// does not show what was to be enforced.
	//
	// Fix: report it with the message; nothing of the container was run.
	EnforcementFailed Code = "sandbox.enforcement_failed"

	// PolicyStale occurs when the policy that a container was made under is not
	// the one that it would get now.
	//
	// Fix: make the container again.
	PolicyStale Code = "sandbox.policy_stale"

	// StateInvalid occurs when what sage saved of a container cannot be read or
	// does not fit what runs.
	//
	// Fix: "sage-runtime delete --force" removes it.
	StateInvalid Code = "sandbox.state_invalid"

	// ResourceExhausted occurs when a container has used up a limit of its own, so
	// that nothing more can be started in it.
	//
	// Fix: end what it runs, or give it a higher limit and make it again; the
	// message names the limit.
	ResourceExhausted Code = "sandbox.resource_exhausted"

	// SetupFailed occurs when "sage-runtime setup" cannot make, or take back, one
	// of its parts. What it made in the same run has been undone.
	//
	// Fix: do what the message says and call it again; "setup --undo" takes back
	// what earlier runs made.
	SetupFailed Code = "sandbox.setup_failed"

	// CleanupIncomplete occurs when processes of a container are still there some
	// time after they were killed.
	//
	// Fix: look at what they wait for (ps -o pid,wchan), which mostly is a device
	// or a network file system; then "sage-runtime delete --force".
	CleanupIncomplete Code = "sandbox.cleanup_incomplete"

	// WatchFailed occurs when nothing watches a container that has a timeout, or
	// limits that the kernel does not hold, or nothing can.
	//
	// Fix: make the container again; the message says what could not be watched.
	WatchFailed Code = "sandbox.watch_failed"

	// EgressHostDenied occurs when a program wants to connect to a host that the
	// policy does not allow, or denies.
	//
	// Fix: name the host in network.allowed_hosts, within the profile's limits;
	// "sage-runtime policy test" says which rule decides.
	EgressHostDenied Code = "sandbox.egress_host_denied"

	// EgressPortDenied occurs when the policy allows a host, but not the port.
	//
	// Fix: add the port to network.allowed_ports, or to the host's entry.
	EgressPortDenied Code = "sandbox.egress_port_denied"

	// EgressSchemeDenied occurs when the policy allows a host and port, but not plain
	// HTTP, or not TLS, there.
	//
	// Fix: add the scheme to network.allowed_schemes, or to the host's entry.
	EgressSchemeDenied Code = "sandbox.egress_scheme_denied"

	// EgressAddressDenied occurs when an allowed name leads to addresses that are private,
	// the host's own, or otherwise not public.
	//
	// Fix: see where the name should lead; network.deny_private_networks and the
	// host's egress.reachable open what is meant to be reached.
	EgressAddressDenied Code = "sandbox.egress_address_denied"

	// EgressResolveFailed occurs when an allowed name has no address, or no nameserver
	// answers.
	//
	// Fix: check the name and the nameservers, which the audit names.
	EgressResolveFailed Code = "sandbox.egress_resolve_failed"

	// EgressConnectFailed occurs when none of the addresses of an allowed host accepts a
	// connection.
	//
	// Fix: check that the server runs and is reachable from where the proxy dials,
	// which the audit names.
	EgressConnectFailed Code = "sandbox.egress_connect_failed"

	// EgressTimeout occurs when a connection, or a part of making it, takes longer than
	// the policy has it.
	//
	// Fix: raise network.max_wall_time_seconds, or ask for less at once.
	EgressTimeout Code = "sandbox.egress_timeout"

	// EgressBadRequest occurs when a request to the proxy is not one that has a single
	// meaning, or is of a kind that the proxy does not do.
	//
	// Fix: send CONNECT host:port for TLS, or one plain HTTP/1.1 request with an
	// absolute URL and a Content-Length.
	EgressBadRequest Code = "sandbox.egress_bad_request"

	// EgressNotTLS occurs when a tunnel to a host carries something else than TLS.
	//
	// Fix: use TLS, or have the host allow tcp://host:port.
	EgressNotTLS Code = "sandbox.egress_not_tls"

	// EgressSNIMissing occurs when a TLS client does not name the server that it wants.
	//
	// Fix: have the client send SNI, as all do that connect by name.
	EgressSNIMissing Code = "sandbox.egress_sni_missing"

	// EgressSNIMismatch occurs when a TLS client names another server than the tunnel was
	// made to.
	//
	// Fix: connect to the name that is meant, so that it is checked.
	EgressSNIMismatch Code = "sandbox.egress_sni_mismatch"

	// EgressECHRefused occurs when a TLS client sends an encrypted ClientHello, in which
	// another name may stand.
	//
	// Fix: turn ECH off in the client, or set network.ech to outer in the host's file.
	EgressECHRefused Code = "sandbox.egress_ech_refused"

	// EgressHelloInvalid occurs when the first bytes of a TLS client cannot be read as a
	// ClientHello with one meaning.
	//
	// Fix: use another TLS library, and report it with the message.
	EgressHelloInvalid Code = "sandbox.egress_hello_invalid"

	// EgressLimitExceeded occurs when a connection has used up its bytes, or a container its
	// budget or number of connections.
	//
	// Fix: raise the limit that the message names, or use less.
	EgressLimitExceeded Code = "sandbox.egress_limit_exceeded"

	// EgressUpstreamRefused occurs when the upstream proxy does not make the connection, or
	// cannot be reached. It is never gone around.
	//
	// Fix: look into that proxy; it must take CONNECT to an IP address.
	EgressUpstreamRefused Code = "sandbox.egress_upstream_refused"

	// EgressUnavailable occurs when the container's proxy is not there, not yet or no longer.
	// There is no network then.
	//
	// Fix: start the container; where it runs already, make it again.
	EgressUnavailable Code = "sandbox.egress_unavailable"

	// NetworkGuardFailed occurs when the packet guard of a container cannot be attached, or
	// the kernel, asked again, does not show it.
	//
	// Fix: do what the message says; nothing of the container was run.
	NetworkGuardFailed Code = "sandbox.network_guard_failed"

	// NetworkGuardUnsupported occurs when this host cannot hold a packet guard: no
	// cgroup2 tree, no privilege for BPF, or a program above that admits no other.
	//
	// Fix: "sage-runtime check" says what is missing; the mode unrestricted needs none.
	NetworkGuardUnsupported Code = "sandbox.network_guard_unsupported"
)

// Error is a failure with a code. A chain of errors holds one at most, and it
// is the innermost: see [Wrap].
type Error struct {
	Code Code
	Op   string // what sage was doing, as a verb phrase: "load bundle"
	Err  error
}

// Error ends with the code: containerd shows only the message of a log record,
// so the code must be in it, and at the end it is in nobody's way.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v [%s]", e.Op, e.Err, e.Code) }

// Unwrap gives the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// Wrap gives err a code and says what was being done; nil stays nil. An error
// that has a code keeps it, because whoever saw the failure first knows best
// what it means; such an error only gains op in front.
func Wrap(code Code, op string, err error) error {
	if err == nil {
		return nil
	}
	if Of(err) != "" {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &Error{Code: code, Op: op, Err: err}
}

// Of returns the code that err carries, or "" if it has none.
func Of(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
