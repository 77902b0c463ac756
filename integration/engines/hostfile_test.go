//go:build engines

package engines

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sage-sandbox/sage/integration/harness"
)

// hostFile is a host configuration other than the capsule's own, with a name by
// which every engine of the ring can be told to use it. The capsule's own, at
// sage's default path, is harness.Compat: whatever names no hostFile has runc's
// behaviour.
//
// A test file makes the ones that it needs in package variables, for daemons
// are configured before the first test runs:
//
//	var audited = newHostFile("audited", harness.SoftSage+"audit_dir: /var/log/sage\n")
//
// and then starts containers under it by any of
//
//	newDocker(t, audited.docker()).run(t, busybox, "true")     // runc's shim, our runtime
//	newDocker(t, audited.dockerShim()).run(t, busybox, "true") // our shim
//	newCtr(t, audited.ctr()).run(t, "true")
//	newCtr(t, audited.ctrShim()).run(t, "true")
//	startPod(t, newCRI(t), audited.cri()) // or audited.criShim()
//	newNerdctl(t, audited.nerdctl())      // runc's shim; nerdctl gives ours no options; see nerdctlHook
//	newPodman(t, audited.podman()...)
type hostFile struct{ name string }

// The presets, for tests that need no file of their own. builtIn has the hard
// limits that this issue cannot give, and so refuses every container.
var (
	softSage    = newHostFile("soft-sage", harness.SoftSage)
	softAgent   = newHostFile("soft-agent", harness.SoftAgent)
	softService = newHostFile("soft-service", harness.SoftService)
	builtIn     = newHostFile("built-in", harness.BuiltIn)
)

var hostFileTexts = map[string]string{}

// newHostFile is for package variables only. The name has to be one of a file.
func newHostFile(name, text string) hostFile {
	if _, taken := hostFileTexts[name]; taken {
		panic("two host files are called " + name)
	}
	hostFileTexts[name] = text
	return hostFile{name}
}

// allHostFiles is sorted, so that configurations do not differ from run to run.
func allHostFiles() []hostFile {
	var all []hostFile
	for _, name := range slices.Sorted(maps.Keys(hostFileTexts)) {
		all = append(all, hostFile{name})
	}
	return all
}

func runtimeBinary() string { return inRing("bin", "sage-runtime") }

// inRing does not ask theRing, whose own making needs these files.
func inRing(elem ...string) string {
	return filepath.Join(append([]string{os.Getenv(dirVar)}, elem...)...)
}

// path is the YAML file, to be given by --config.
func (h hostFile) path() string { return inRing("host-files", h.name+".yaml") }

// wrapper is a program that is the runtime under test with --config, for
// everything that knows a runtime by its path alone.
func (h hostFile) wrapper() string { return inRing("host-files", h.name, "sage-runtime") }

// shimOptions is a file that tells our shim to run the wrapper.
func (h hostFile) shimOptions() string { return inRing("host-files", h.name, "shim.toml") }

func (h hostFile) docker() string     { return "sage-" + h.name }
func (h hostFile) dockerShim() string { return "sage-shim-" + h.name }
func (h hostFile) cri() string        { return "binary-" + h.name }
func (h hostFile) criShim() string    { return "shim-" + h.name }
func (h hostFile) nerdctl() string    { return h.wrapper() }
func (h hostFile) ctr() []string      { return []string{"--runc-binary", h.wrapper()} }

func (h hostFile) ctrShim() []string {
	return []string{"--runtime", "io.containerd.sage.v2", "--runtime-config-path", h.shimOptions()}
}

func (h hostFile) podman() []string {
	return []string{"--runtime", runtimeBinary(), "--runtime-flag", "config=" + h.path()}
}

// dockerRuntimes are this file's two entries of daemon.json.
func (h hostFile) dockerRuntimes() map[string]any {
	return map[string]any{
		h.docker(): map[string]any{
			"path": runtimeBinary(), "runtimeArgs": []string{"--config", h.path()},
		},
		h.dockerShim(): map[string]any{
			"runtimeType": "io.containerd.sage.v2",
			"options":     map[string]any{"TypeUrl": "containerd.runc.v1.Options", "ConfigPath": h.shimOptions()},
		},
	}
}

// write puts the file, the wrapper and the shim's options where they are said to be.
func (h hostFile) write() error {
	// exec keeps the pid, which conmon and the shims wait for.
	script := fmt.Sprintf("#!/bin/sh\nexec %s --config %s \"$@\"\n", runtimeBinary(), h.path())
	return errors.Join(
		os.MkdirAll(filepath.Dir(h.wrapper()), 0o755),
		os.WriteFile(h.path(), []byte(hostFileTexts[h.name]), 0o644),
		os.WriteFile(h.wrapper(), []byte(script), 0o755),
		os.WriteFile(h.shimOptions(), fmt.Appendf(nil, "BinaryName = %q\n", h.wrapper()), 0o644),
	)
}

func writeHostFiles() error {
	var errs []error
	for _, h := range allHostFiles() {
		errs = append(errs, h.write())
	}
	return errors.Join(errs...)
}
