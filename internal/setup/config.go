package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// projectIDs is a range that neither people nor kubelet take their own from.
const projectIDs = "100000-199999"

// setting is one line of the configuration, and whether it holds already.
type setting struct {
	line  string
	holds func(*spec.Host) bool
}

// settings are what the configuration has to say of what setup made.
func (j *job) settings() []setting {
	return []setting{
		{"linux_quota_mount: " + scalar(j.Mount), func(h *spec.Host) bool { return h.QuotaMount == j.Mount }},
		{"linux_cgroup_root: " + scalar(j.Cgroup), func(h *spec.Host) bool { return h.CgroupRoot == j.Cgroup }},
		{"quota: {project_ids: " + projectIDs + "}", func(h *spec.Host) bool { return h.ProjectIDs != spec.IDRange{} }},
		{"audit_dir: " + scalar(j.Audit), func(h *spec.Host) bool { return h.AuditDir == j.Audit }},
	}
}

// scalar quotes a path that YAML could take for something else; JSON's strings
// are YAML's.
func scalar(path string) string {
	if !strings.ContainsFunc(path, special) {
		return path
	}
	quoted, _ := json.Marshal(path) // a string always can be
	return string(quoted)
}

func special(r rune) bool {
	word := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !word && !strings.ContainsRune("/._-", r)
}

func configText(settings []setting) string {
	lines := []string{`# Written by "sage-runtime setup". spec/README.md has every key.`, "version: 1"}
	for _, s := range settings {
		lines = append(lines, s.line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// missing are the lines that host would have to have.
func missing(host *spec.Host, settings []setting) []string {
	var lines []string
	for _, s := range settings {
		if !s.holds(host) {
			lines = append(lines, s.line)
		}
	}
	return lines
}

// config writes the host's configuration if there is none. One that there is
// belongs to somebody, who is told what it lacks.
func (j *job) config(host *spec.Host) (ready bool, err error) {
	settings := j.settings()
	if host != nil {
		lines := missing(host, settings)
		if lines == nil {
			return true, j.already("config", j.Config)
		}
		j.say(Line{"config", Todo, "add to " + j.Config + ": " + strings.Join(lines, "; ")})
		return false, nil
	}
	text := configText(settings)
	if _, err := spec.ParseHost([]byte(text)); err != nil {
		return false, err
	}
	if err := j.parents("config", j.Config); err != nil {
		return false, err
	}
	return true, j.make("config", item{Kind: kindFile, Path: j.Config, Text: digest([]byte(text))}, j.Config, func(*item) error {
		return writeNew(j.Config, text)
	})
}

// readConfig returns nil where there is none.
func readConfig(path string) (*spec.Host, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no configuration is no failure
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.ConfigInvalid, "read the host's configuration", err)
	}
	host, err := spec.ParseHost(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return host, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
