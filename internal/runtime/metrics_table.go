package runtime

import "github.com/sage-sandbox/sage/egress"

// metricTable lists every metric, in the order of the text. Names and labels are
// what dashboards are made of: they are only ever added.
func metricTable() []Metric {
	table := []Metric{
		{Name: "sage_container_running", Help: "Whether the container's program runs or is paused: 1, else 0.", Gauge: true},

		{Name: "sage_cpu_seconds_total", Help: "Time that the container's processes spent on CPUs."},
		{Name: "sage_cpu_periods_total", Help: "Periods in which the container's CPU limit was enforced."},
		{Name: "sage_cpu_throttled_periods_total", Help: "Periods in which it was throttled."},
		{Name: "sage_cpu_throttled_seconds_total", Help: "Time for which it was throttled."},

		{Name: "sage_memory_usage_bytes", Help: "Memory that is charged to the container, page cache included.", Gauge: true},
		{Name: "sage_memory_working_set_bytes", Help: "That without the inactive page cache.", Gauge: true},
		{Name: "sage_memory_swap_bytes", Help: "Swap that is charged to the container.", Gauge: true},
		{Name: "sage_memory_limit_bytes", Help: "The cgroup's own limit of memory, where it has one.", Gauge: true},
		{Name: "sage_memory_oom_kills_total", Help: "Processes that the kernel killed for want of memory."},

		{Name: "sage_pids", Help: "Processes and threads in the container.", Gauge: true},
		{Name: "sage_pids_limit", Help: "The cgroup's own limit of them, where it has one.", Gauge: true},
		{Name: "sage_pids_refused_total", Help: "Forks and threads that failed for that limit."},

		{Name: "sage_disk_used_bytes", Help: "Disk that counts for the container's project.", Gauge: true},
		{Name: "sage_disk_limit_bytes", Help: "The project's limit.", Gauge: true},
		{Name: "sage_disk_used_inodes", Help: "Inodes that count for the container's project.", Gauge: true},
		{Name: "sage_disk_limit_inodes", Help: "The project's limit of inodes.", Gauge: true},
		{Name: "sage_workspace_used_bytes", Help: "Disk that counts for the project of a workspace, whoever uses it.", Gauge: true},
		{Name: "sage_workspace_limit_bytes", Help: "That project's limit.", Gauge: true},
		{Name: "sage_workspace_used_inodes", Help: "Inodes that count for the project of a workspace.", Gauge: true},
		{Name: "sage_workspace_limit_inodes", Help: "That project's limit of inodes.", Gauge: true},

		{Name: "sage_egress_proxy_up", Help: "Whether the proxy of a running container is there: 1, else 0, and no network.", Gauge: true},
	}
	for i, c := range egress.Counters {
		if c.Code == "" { // the others are samples of one of these
			table = append(table, Metric{Name: egressMetric(egress.Counter(i)), Help: c.Help, Gauge: c.Gauge})
		}
	}
	return append(table, Metric{Name: "sage_scrape_error", Help: "A part of a container that could not be read this time.", Gauge: true})
}

func egressMetric(c egress.Counter) string { return "sage_egress_" + egress.Counters[c].Name }
