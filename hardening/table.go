package hardening

import "sync"

const foreign = "not for Linux"

// table has a line for every field of a bundle, by its name in config.json;
// lists and maps are not part of a name. A test compares it with the types of
// the runtime specification, v1.3.0.
var table = sync.OnceValue(func() map[string]line {
	return map[string]line{
		"ociVersion":  {verb: keep},
		"hostname":    {verb: judge}, // dropped where the uts namespace is another's
		"domainname":  {verb: judge},
		"annotations": {verb: judge}, // for systemd's properties
		"solaris":     {refuse, foreign},
		"windows":     {refuse, foreign},
		"vm":          {refuse, foreign},
		"zos":         {refuse, foreign},
		"freebsd":     {refuse, foreign},

		"root.path":     {verb: judge},
		"root.readonly": {verb: judge},

		"mounts.destination": {verb: judge},
		"mounts.type":        {verb: judge},
		"mounts.source":      {verb: judge},
		"mounts.options":     {verb: judge},
		"mounts.uidMappings": {verb: judge}, // as a whole: only with a user namespace
		"mounts.gidMappings": {verb: judge},

		"hooks.prestart":        {verb: judge},
		"hooks.createRuntime":   {verb: judge},
		"hooks.createContainer": {verb: judge},
		"hooks.startContainer":  {verb: judge},
		"hooks.poststart":       {verb: judge},
		"hooks.poststop":        {verb: judge},

		"process.terminal":                 {verb: keep},
		"process.consoleSize":              {verb: keep},
		"process.user.uid":                 {verb: judge},
		"process.user.gid":                 {verb: judge},
		"process.user.umask":               {verb: keep},
		"process.user.additionalGids":      {verb: judge},
		"process.user.username":            {refuse, foreign},
		"process.args":                     {verb: keep},
		"process.commandLine":              {refuse, foreign},
		"process.env":                      {verb: judge},
		"process.cwd":                      {verb: judge},
		"process.capabilities.bounding":    {verb: judge},
		"process.capabilities.effective":   {verb: judge},
		"process.capabilities.inheritable": {verb: judge},
		"process.capabilities.permitted":   {verb: judge},
		"process.capabilities.ambient":     {verb: judge},
		"process.rlimits":                  {verb: judge},
		"process.noNewPrivileges":          {verb: judge},
		"process.apparmorProfile":          {verb: judge},
		"process.oomScoreAdj":              {verb: judge},
		"process.scheduler":                {verb: judge},
		"process.selinuxLabel":             {verb: judge},
		"process.ioPriority":               {verb: judge},
		"process.execCPUAffinity":          {verb: keep}, // within the cgroup's cpuset

		"linux.uidMappings":       {verb: judge},
		"linux.gidMappings":       {verb: judge},
		"linux.sysctl":            {verb: judge},
		"linux.cgroupsPath":       {verb: judge},
		"linux.namespaces":        {verb: judge},
		"linux.devices":           {verb: judge},
		"linux.netDevices":        {refuse, "network devices of the host stay there"},
		"linux.rootfsPropagation": {verb: judge},
		"linux.maskedPaths":       {verb: judge},
		"linux.readonlyPaths":     {verb: judge},
		"linux.mountLabel":        {verb: judge},
		"linux.intelRdt":          {verb: judge},
		"linux.memoryPolicy":      {verb: keep}, // within the cgroup's cpuset.mems
		"linux.personality":       {verb: judge},
		"linux.timeOffsets":       {refuse, "the container's clocks are the host's"},

		"linux.seccomp.defaultAction":     {verb: judge},
		"linux.seccomp.defaultErrnoRet":   {verb: keep},
		"linux.seccomp.architectures":     {verb: keep},
		"linux.seccomp.flags":             {verb: judge},
		"linux.seccomp.listenerPath":      {refuse, "no other program decides about system calls"},
		"linux.seccomp.listenerMetadata":  {refuse, "no other program decides about system calls"},
		"linux.seccomp.syscalls.names":    {verb: keep},
		"linux.seccomp.syscalls.action":   {verb: judge},
		"linux.seccomp.syscalls.errnoRet": {verb: keep},
		"linux.seccomp.syscalls.args":     {verb: keep},

		"linux.resources.devices":                  {verb: judge},
		"linux.resources.memory.limit":             {verb: judge},
		"linux.resources.memory.reservation":       {verb: judge},
		"linux.resources.memory.swap":              {verb: judge},
		"linux.resources.memory.kernel":            {discard, "without effect since Linux 5.16"},
		"linux.resources.memory.kernelTCP":         {discard, "without effect in libcontainer"},
		"linux.resources.memory.swappiness":        {verb: keep}, // there is no swap
		"linux.resources.memory.disableOOMKiller":  {verb: judge},
		"linux.resources.memory.useHierarchy":      {verb: keep},
		"linux.resources.memory.checkBeforeUpdate": {verb: keep},
		"linux.resources.cpu.shares":               {verb: keep}, // a weight among neighbours, within the quota
		"linux.resources.cpu.quota":                {verb: judge},
		"linux.resources.cpu.burst":                {verb: judge},
		"linux.resources.cpu.period":               {verb: judge},
		"linux.resources.cpu.realtimeRuntime":      {verb: judge},
		"linux.resources.cpu.realtimePeriod":       {verb: judge},
		"linux.resources.cpu.cpus":                 {verb: keep},
		"linux.resources.cpu.mems":                 {verb: keep},
		"linux.resources.cpu.idle":                 {verb: keep},
		"linux.resources.pids.limit":               {verb: judge},
		"linux.resources.blockIO":                  {verb: keep}, // weights and ceilings of throughput
		"linux.resources.hugepageLimits":           {verb: keep},
		"linux.resources.network":                  {verb: keep}, // marks for the host's packet filter
		"linux.resources.rdma":                     {verb: keep},
		"linux.resources.unified":                  {verb: judge},
	}
})
