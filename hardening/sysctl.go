package hardening

import (
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Sysctls by the namespace that holds their value. Of the network's only those
// are here that change how the container's own sockets behave: nothing that
// routes, forwards, answers for others or believes what others announce. With
// net.ipv4.conf.*.route_localnet a neighbour reached a listener on 127.0.0.1.
var (
	ipcSysctls = strings.Fields(`
		kernel.msgmax kernel.msgmnb kernel.msgmni kernel.sem kernel.shmall kernel.shmmax kernel.shmmni
		kernel.shm_rmid_forced fs.mqueue.msg_default fs.mqueue.msg_max fs.mqueue.msgsize_default
		fs.mqueue.msgsize_max fs.mqueue.queues_max`)
	netSysctls = strings.Fields(`
		net.core.somaxconn net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports
		net.ipv4.ip_unprivileged_port_start net.ipv4.ping_group_range
		net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes
		net.ipv4.tcp_keepalive_time net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_max_tw_buckets
		net.ipv4.tcp_mtu_probing net.ipv4.tcp_notsent_lowat net.ipv4.tcp_orphan_retries net.ipv4.tcp_retries1
		net.ipv4.tcp_retries2 net.ipv4.tcp_rmem net.ipv4.tcp_sack net.ipv4.tcp_slow_start_after_idle
		net.ipv4.tcp_syn_retries net.ipv4.tcp_synack_retries net.ipv4.tcp_syncookies net.ipv4.tcp_timestamps
		net.ipv4.tcp_tw_reuse net.ipv4.tcp_window_scaling net.ipv4.tcp_wmem net.unix.max_dgram_qlen
		net.ipv6.conf.all.disable_ipv6 net.ipv6.conf.default.disable_ipv6 net.ipv6.conf.lo.disable_ipv6`)
	utsSysctls = []string{"kernel.domainname"}
)

func (h *hardener) sysctl() error {
	const field = "linux.sysctl"
	for _, key := range slices.Sorted(maps.Keys(h.spec.Linux.Sysctl)) {
		t, ok := sysctlNamespace(dotted(key))
		switch has := holds(h.spec, t); {
		case !ok:
			return denied(field, "saw %.80q, want one of those that sage knows to concern the container alone", key)
		case has == own:
		case has == joined && t == specs.NetworkNamespace:
			// Kubernetes makes a pod's network namespace before its first container,
			// which sets it up.
		default:
			return denied(field, "saw %.80q, want none without a %s namespace of the container's own", key, t)
		}
		value := h.spec.Linux.Sysctl[key]
		if t != specs.UTSNamespace && strings.Trim(value, "0123456789- \t,") != "" || strings.ContainsAny(value, "\n\x00") {
			return invalid(field, "want only numbers for %.80q", key)
		}
	}
	return nil
}

func sysctlNamespace(name string) (specs.LinuxNamespaceType, bool) {
	switch {
	case slices.Contains(ipcSysctls, name):
		return specs.IPCNamespace, true
	case slices.Contains(netSysctls, name):
		return specs.NetworkNamespace, true
	case slices.Contains(utsSysctls, name):
		return specs.UTSNamespace, true
	}
	return "", false
}

// dotted gives a name in the form with dots: where a slash comes first, the two
// separators have changed places (sysctl.d(5)).
func dotted(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}
