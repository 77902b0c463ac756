package spec

import (
	"slices"
	"strconv"
)

const (
	cpuScale = CPUPeriod / 100 // µs of the period that are one per cent of a core
	mebi     = 1 << 20
	// maxMiB is a pebibyte: above it a number is a mistake, and far below what
	// would overflow as bytes.
	maxMiB = 1 << 30
	// maxBytes and maxSeconds are as generous; the latter is some 68 years.
	maxBytes, maxSeconds = 1 << 50, 1<<31 - 1
	maxConnections       = 1 << 14
)

const (
	everywhere = inDefaults | inLimits | inAnnotations
	both       = inDefaults | inAnnotations
)

// settings are the keys of a profile in the order in which they are told.
var settings = slices.Concat(
	resourceSettings, destinationSettings, connectionSettings, processSettings, fileSettings, []setting{timeoutSetting},
)

var resourceSettings = []setting{
	{
		key: keyCPU, in: everywhere, scale: cpuScale, unit: "%", min: 1, max: 1_000_000,
		set: func(p *Policy, v value) { p.Resources.CPUQuota = v.n },
	},
	{
		key: keyMemory, in: everywhere, scale: mebi, unit: "MiB", min: 1, max: maxMiB,
		set: func(p *Policy, v value) { p.Resources.MemoryBytes = v.n },
	},
	{
		key: keyDisk, in: everywhere, scale: mebi, unit: "MiB", min: 1, max: maxMiB,
		set: func(p *Policy, v value) { p.Resources.DiskBytes = v.n },
	},
	{
		// The least is the first seed's, so that policies written for it are good
		// here too; the most is what the kernel can number (S-009, G-24).
		key: keyProcesses, in: everywhere, scale: 1, min: minProcesses, max: 1 << 22,
		set: func(p *Policy, v value) { p.Resources.MaxProcesses = v.n },
	},
	{
		key: keyHardLimits, form: formFlag, in: both, rule: turnOn,
		set: func(p *Policy, v value) { p.Resources.RequireHardLimits = v.b },
	},
}

const minProcesses = 4

// The keys that more than the table speaks of.
const (
	keyCPU          = "resources.cpu_percent"
	keyMemory       = "resources.memory_mb"
	keyDisk         = "resources.disk_mb"
	keyProcesses    = "resources.max_processes"
	keyHardLimits   = "resources.require_hard_limits"
	keyMode         = "network.mode"
	keyHosts        = "network.allowed_hosts"
	keyPorts        = "network.allowed_ports"
	keySchemes      = "network.allowed_schemes"
	keyDenied       = "network.denied_hosts"
	keyProxy        = "network.proxy_url"
	keyTransparent  = "network.transparent"
	keyDial         = "network.dial"
	keyECH          = "network.ech"
	keyDenyPrivate  = "network.deny_private_networks"
	keyFileSize     = "process.max_file_mb"
	keyOutput       = "process.max_output_bytes"
	keyEnv          = "process.allowed_env_names"
	keyForceEnv     = "process.force_env"
	keyReadonlyRoot = "files.readonly_root"
	keyPrivileged   = "files.refuse_privileged"
)

var destinationSettings = []setting{
	{
		key: keyMode, form: formWord, in: everywhere, rule: oneOf, limitKey: "network.modes", words: modes, entry: parseMode,
		set: func(p *Policy, v value) { p.Network.Mode = NetworkMode(v.s) },
	},
	{
		key: keyHosts, form: formList, in: everywhere, rule: within, entry: parseHostRule,
		set: func(p *Policy, v value) { p.Network.AllowedHosts = v.list },
	},
	{
		key: keyDenied, form: formList, in: both, rule: added, entry: parseDeniedHost,
		set: func(p *Policy, v value) { p.Network.DeniedHosts = v.list },
	},
	{
		key: keyPorts, form: formNumbers, in: everywhere, rule: subset, entry: parsePort,
		set: func(p *Policy, v value) { p.Network.AllowedPorts = ports(v.list) },
	},
	{
		key: keySchemes, form: formList, in: everywhere, rule: subset, entry: parseScheme,
		set: func(p *Policy, v value) { p.Network.AllowedSchemes = v.list },
	},
	{
		key: keyProxy, form: formWord, in: both, rule: unchanged, entry: parseProxyURL,
		set: func(p *Policy, v value) { p.Network.ProxyURL = v.s },
	},
	{
		key: keyDenyPrivate, form: formFlag, in: everywhere, rule: turnOn,
		set: func(p *Policy, v value) { p.Network.DenyPrivateNetworks = v.b },
	},
	{
		key: keyTransparent, form: formFlag, in: both, rule: turnOff,
		set: func(p *Policy, v value) { p.Network.Transparent = v.b },
	},
	{
		// No place is stricter than another: the engine's rules hold in one, the
		// host's in the other. So a host that lets bundles choose lists them.
		key: keyDial, form: formWord, in: everywhere, rule: oneOf, limitKey: "network.dials", words: dials, entry: parseDial,
		set: func(p *Policy, v value) { p.Network.Dial = Dial(v.s) },
	},
	{
		key: keyECH, form: formWord, in: everywhere, rule: rank, words: echs, entry: parseECH,
		set: func(p *Policy, v value) { p.Network.ECH = v.s },
	},
}

var connectionSettings = []setting{
	{
		key: "network.max_wall_time_seconds", in: everywhere, scale: 1, unit: "s", min: 1, max: maxSeconds,
		set: func(p *Policy, v value) { p.Network.MaxWallTimeSeconds = v.n },
	},
	{
		key: "network.max_request_body_bytes", in: everywhere, scale: 1, unit: "bytes", min: 1, max: maxBytes,
		set: func(p *Policy, v value) { p.Network.MaxRequestBodyBytes = v.n },
	},
	{
		key: "network.max_response_bytes", in: everywhere, scale: 1, unit: "bytes", min: 1, max: maxBytes,
		set: func(p *Policy, v value) { p.Network.MaxResponseBytes = v.n },
	},
	{
		// Each takes two descriptors of the proxy, of which there are so many.
		key: "network.max_connections", in: everywhere, scale: 1, min: 1, max: maxConnections,
		set: func(p *Policy, v value) { p.Network.MaxConnections = v.n },
	},
	{
		key: "network.max_active", in: everywhere, scale: 1, min: 1, max: maxConnections,
		set: func(p *Policy, v value) { p.Network.MaxActive = v.n },
	},
	{
		// 0 is the policy's word for none; only the host may say it.
		key: "network.max_total_bytes", in: everywhere, scale: 1, unit: "bytes", min: 0, max: maxBytes,
		set: func(p *Policy, v value) { p.Network.MaxTotalBytes = v.n },
	},
	{
		key: "network.listen", form: formWord, in: everywhere, rule: rank, words: listens, entry: parseListen,
		set: func(p *Policy, v value) { p.Network.Listen = Listen(v.s) },
	},
	{
		key: "network.unix_sockets", form: formFlag, in: both, rule: turnOff,
		set: func(p *Policy, v value) { p.Network.UnixSockets = v.b },
	},
	{
		key: "network.host_network", form: formFlag, in: inLimits, rule: turnOff,
		set: func(p *Policy, v value) { p.Network.HostNetwork = v.b },
	},
}

var processSettings = []setting{
	{
		key: "process.capabilities", form: formList, in: both, rule: subset, entry: parseCapability,
		set: func(p *Policy, v value) { p.Process.Capabilities = v.list },
	},
	{
		key: "process.allow_ptrace", form: formFlag, in: both, rule: turnOff,
		set: func(p *Policy, v value) { p.Process.AllowPtrace = v.b },
	},
	{
		key: "process.allow_no_randomize", form: formFlag, in: both, rule: turnOff,
		set: func(p *Policy, v value) { p.Process.AllowNoRandomize = v.b },
	},
	{
		key: "process.require_non_root", form: formFlag, in: both, rule: turnOn,
		set: func(p *Policy, v value) { p.Process.RequireNonRoot = v.b },
	},
	{
		// The kernel's fs.nr_open, above which no limit can be set.
		key: "process.max_open_files", in: both, scale: 1, min: 16, max: 1 << 20,
		set: func(p *Policy, v value) { p.Process.MaxOpenFiles = uint64(v.n) },
	},
	{
		key: keyFileSize, in: both, scale: mebi, unit: "MiB", min: 1, max: maxMiB,
		set: func(p *Policy, v value) { p.Process.MaxFileBytes = uint64(v.n) },
	},
	{
		// 0 is the policy's word for none; only the host may say it.
		key: keyOutput, in: everywhere, scale: 1, unit: "bytes", min: 0, max: maxBytes,
		set: func(p *Policy, v value) { p.Process.MaxOutputBytes = v.n },
	},
	{
		key: keyEnv, form: formList, in: both, rule: subset, entry: parseEnvName,
		set: func(p *Policy, v value) { p.Process.AllowedEnv = v.list },
	},
	{
		key: keyForceEnv, form: formPairs, in: inDefaults, rule: unchanged, entry: parseEnvName,
		set: func(p *Policy, v value) { p.Process.ForceEnv = v.list },
	},
}

var fileSettings = []setting{
	{
		key: keyReadonlyRoot, form: formFlag, in: both, rule: turnOn,
		set: func(p *Policy, v value) { p.Files.ReadonlyRoot = v.b },
	},
	{
		key: "files.readonly_proc", form: formFlag, in: both, rule: turnOn,
		set: func(p *Policy, v value) { p.Files.ReadonlyProc = v.b },
	},
	{
		key: "files.protected_paths", form: formList, in: both, rule: added, entry: parseProtectedPath,
		set: func(p *Policy, v value) { p.Files.ProtectedPaths = v.list },
	},
	{
		key: keyPrivileged, form: formFlag, in: both, rule: turnOn,
		set: func(p *Policy, v value) { p.Files.RefusePrivileged = v.b },
	},
	{
		key: "files.require_apparmor", form: formFlag, in: both, rule: turnOn,
		set: func(p *Policy, v value) { p.Files.RequireAppArmor = v.b },
	},
}

var timeoutSetting = setting{
	// 0 is the policy's word for none; only the host may say it.
	key: "timeout_seconds", in: everywhere, scale: 1, unit: "s", min: 0, max: maxSeconds,
	set: func(p *Policy, v value) { p.TimeoutSeconds = v.n },
}

func ports(list []string) []uint16 {
	out := make([]uint16, 0, len(list))
	for _, text := range list {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			out = append(out, uint16(n))
		}
	}
	return out
}
