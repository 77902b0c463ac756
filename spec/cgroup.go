package spec

import "strings"

// IsSystemdPath says whether a cgroupsPath is of the form slice:prefix:name,
// which means systemd's cgroup driver whatever else the engine said: Docker
// passes a foreign runtime no option for it, and as a path of a cgroup file
// system it would make a folder of that name. The slice is empty or "-",
// systemd's short forms for the default and the root slice, or ends in .slice.
func IsSystemdPath(path string) bool {
	parts := strings.Split(path, ":")
	if len(parts) != 3 || parts[2] == "" {
		return false
	}
	return parts[0] == "" || parts[0] == "-" || strings.HasSuffix(parts[0], ".slice")
}
