package shim

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSpec bounds what is read of config.json. A larger one is for sage-runtime
// to refuse, which says so in words.
const maxSpec = 16 << 20

// cgroupsPath gives the one field of config.json that the shim decides by. A
// file that cannot be read or parsed gives "": sage-runtime reads it next and
// its error names the field, which an error from here could not do better.
func cgroupsPath(bundle string) string {
	f, err := os.Open(filepath.Join(bundle, "config.json"))
	if err != nil {
		return ""
	}
	defer f.Close()
	var spec struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if err := json.NewDecoder(io.LimitReader(f, maxSpec)).Decode(&spec); err != nil {
		return ""
	}
	return spec.Linux.CgroupsPath
}

// isSystemdPath tells slice:prefix:name, which only systemd's driver can use,
// from a path of a cgroup file system that happens to have colons. "" and "-"
// are systemd's own short forms for the default and the root slice.
func isSystemdPath(path string) bool {
	parts := strings.Split(path, ":")
	if len(parts) != 3 || parts[2] == "" {
		return false
	}
	return parts[0] == "" || parts[0] == "-" || strings.HasSuffix(parts[0], ".slice")
}

// deletedFile marks a bundle whose container was deleted without an error.
const deletedFile = "sage-deleted"

// recordDeleted may fail: the clean-up then deletes what is already gone, which
// is no error either.
func recordDeleted(bundle string) {
	if bundle == "" {
		return // else the file would land in the working directory, another's bundle
	}
	_ = os.WriteFile(filepath.Join(bundle, deletedFile), nil, 0o600)
}

func isDeleted(bundle string) bool {
	_, err := os.Lstat(filepath.Join(bundle, deletedFile))
	return err == nil
}
