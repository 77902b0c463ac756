// Package plan is what the host tells its guest to do and what the guest
// answers, as files in the folder that both see. It is not a protocol: each
// file is written once, whole.
package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Names in the shared folder.
const (
	File    = "plan.json"
	Answer  = "answer.json"
	OutTag  = "sage.out"   // name of the serial port that carries the output
	RootTag = "sage.root"  // 9p tag of the host's root, read-only
	TagOf   = "sage.share" // 9p tag of the shared folder
	OutDir  = "out"        // what a payload leaves for the host
)

// Mount points in the guest.
const (
	Share    = "/run/sage-vm"
	QuotaXFS = "/srv/sage-xfs"
	PlainXFS = "/srv/plain-xfs"
)

// Plan is all that a guest does before it ends.
type Plan struct {
	// Systemd makes Debian's systemd pid 1, and the jobs one of its services.
	Systemd bool `json:"systemd"`
	// Kernel is the host folder that the kernel package was unpacked to.
	Kernel string `json:"kernel"`
	// Program is the host's path of this program, for the second stage.
	Program string `json:"program"`
	// Modules are loaded before the jobs, with what they depend on.
	Modules []string `json:"modules"`
	Env     []string `json:"env"`
	Jobs    []Job    `json:"jobs"`
}

// Job is one command; one that fails does not keep the next from running.
type Job struct {
	Name string   `json:"name"`
	Dir  string   `json:"dir"`
	Args []string `json:"args"`
}

// Result is how a job ended.
type Result struct {
	Name string `json:"name"`
	// Code is the exit status, 128 and the number after a signal.
	Code    int     `json:"code"`
	Seconds float64 `json:"seconds"`
	// Held says that a process outlived the job and kept its output open.
	Held bool `json:"held"`
}

// Report is the guest's answer. One that is not there means that the guest
// died, whatever its console said.
type Report struct {
	Release string   `json:"release"`
	Results []Result `json:"results"`
	// UpSeconds is the uptime when the first job began.
	UpSeconds float64 `json:"upSeconds"`
	// Error is why the guest could not begin, or could not go on.
	Error string `json:"error,omitempty"`
}

// Save writes a value as JSON so that nobody sees half of it.
func Save(dir, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Load reads what Save wrote.
func Load(dir, name string, v any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
