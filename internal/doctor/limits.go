package doctor

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/sage-sandbox/sage/spec"
)

// limitNames are the limits of getrlimit(2) by what /proc/PID/limits calls
// them. It shows them all in the unit of getrlimit.
var limitNames = map[string]string{
	"Max cpu time":          "RLIMIT_CPU",
	"Max file size":         "RLIMIT_FSIZE",
	"Max data size":         "RLIMIT_DATA",
	"Max stack size":        "RLIMIT_STACK",
	"Max core file size":    "RLIMIT_CORE",
	"Max resident set":      "RLIMIT_RSS",
	"Max processes":         "RLIMIT_NPROC",
	"Max open files":        "RLIMIT_NOFILE",
	"Max locked memory":     "RLIMIT_MEMLOCK",
	"Max address space":     "RLIMIT_AS",
	"Max file locks":        "RLIMIT_LOCKS",
	"Max pending signals":   "RLIMIT_SIGPENDING",
	"Max msgqueue size":     "RLIMIT_MSGQUEUE",
	"Max nice priority":     "RLIMIT_NICE",
	"Max realtime priority": "RLIMIT_RTPRIO",
	"Max realtime timeout":  "RLIMIT_RTTIME",
}

// unlimited is RLIM_INFINITY.
const unlimited = math.MaxUint64

// limitColumn is where the value begins: "%-25s %-20s %-20s %-10s\n".
const limitColumn = 26

func readLimits(dir fs.FS) (map[string]spec.Rlimit, error) {
	data, err := fs.ReadFile(dir, "limits")
	if err != nil {
		return nil, err
	}
	limits, err := parseLimits(string(data))
	if err != nil {
		return nil, fmt.Errorf("rlimits: %w", err)
	}
	return limits, nil
}

// parseLimits goes by columns: the names consist of several words.
func parseLimits(text string) (map[string]spec.Rlimit, error) {
	limits := map[string]spec.Rlimit{}
	for line := range strings.Lines(text) {
		if len(line) < limitColumn {
			return nil, fmt.Errorf("line %q: too short", line)
		}
		name, ok := limitNames[strings.TrimSpace(line[:limitColumn])]
		if !ok {
			continue // the head line, or a limit that is newer than the table
		}
		limit, err := parseLimit(line[limitColumn:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		limits[name] = limit
	}
	for _, name := range limitNames {
		if _, ok := limits[name]; !ok {
			return nil, fmt.Errorf("%s: this kernel does not report it", name)
		}
	}
	return limits, nil
}

func parseLimit(text string) (spec.Rlimit, error) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return spec.Rlimit{}, fmt.Errorf("%q: want a soft and a hard limit", text)
	}
	soft, err := parseLimitValue(fields[0])
	if err != nil {
		return spec.Rlimit{}, err
	}
	hard, err := parseLimitValue(fields[1])
	return spec.Rlimit{Soft: soft, Hard: hard}, err
}

func parseLimitValue(text string) (uint64, error) {
	if text == "unlimited" {
		return unlimited, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
