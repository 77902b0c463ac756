package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kernel is an unpacked kernel package.
type kernel struct {
	release string // such as 6.12
	version string // such as 6.12.117+deb12-amd64
	dir     string
}

// name is what a result is listed under.
func (k kernel) name(guest string) string {
	return strings.TrimSpace("linux " + k.release + " " + guest)
}

func (k kernel) image() string { return filepath.Join(k.dir, "boot", "vmlinuz-"+k.version) }

// findKernel returns the cached kernel or fetches Debian's newest of that
// release. Nothing is installed: a package's own scripts never run.
func (r *ring) findKernel(ctx context.Context, release string) (kernel, error) {
	k := kernel{release: release, dir: filepath.Join(r.cache, "kernel-"+release)}
	if _, err := os.Stat(k.dir); err != nil {
		if err := r.fetchKernel(ctx, k); err != nil {
			return k, fmt.Errorf("kernel %s: %w", release, err)
		}
	}
	found, err := filepath.Glob(filepath.Join(k.dir, "lib/modules/*/modules.dep"))
	if err != nil || len(found) != 1 {
		return k, fmt.Errorf("%s holds %d kernels, want one: remove that folder", k.dir, len(found))
	}
	k.version = filepath.Base(filepath.Dir(found[0]))
	return k, nil
}

// fetchKernel renames at the end, so that a folder with the name is complete.
func (r *ring) fetchKernel(ctx context.Context, k kernel) error {
	pkg, err := newestPackage(ctx, k.release)
	if err != nil {
		return err
	}
	fmt.Fprintln(r.stderr, "vm: fetching", pkg)
	tmp := filepath.Join(r.dir, "kernel-"+k.release)
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	// Its sandbox user may not see root's cache folder.
	if _, err := output(ctx, tmp, "apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", pkg); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download left %d files, want one package", len(debs))
	}
	if _, err := output(ctx, tmp, "dpkg-deb", "-x", debs[0], "."); err != nil {
		return err
	}
	if err := os.Remove(debs[0]); err != nil {
		return err
	}
	if err := indexModules(ctx, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, k.dir)
}

// indexModules writes modules.dep. Newer packages have their modules in
// usr/lib, where kmod does not look under another root.
func indexModules(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "lib")); err != nil {
		if err := os.Symlink("usr/lib", filepath.Join(dir, "lib")); err != nil {
			return err
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "lib/modules/*"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the package has modules of %d kernels, want one", len(found))
	}
	_, err = output(ctx, dir, "depmod", "-b", dir, filepath.Base(found[0]))
	return err
}

// newestPackage asks apt's lists, fetching them where there are none.
func newestPackage(ctx context.Context, release string) (string, error) {
	search := func() (string, error) {
		out, err := output(ctx, "/", "apt-cache", "search", "--names-only", "^linux-image-"+regexp.QuoteMeta(release)+`\.`)
		return newest(release, out), err
	}
	pkg, err := search()
	if err != nil || pkg != "" {
		return pkg, err
	}
	if _, err := output(ctx, "/", "apt-get", "update", "-qq"); err != nil {
		return "", err
	}
	pkg, err = search()
	if err == nil && pkg == "" {
		err = errors.New("apt knows no package linux-image-" + release + ".*-amd64: the ring needs Debian's package lists")
	}
	return pkg, err
}

// newest picks the highest version of the ordinary kernel, signed or not.
func newest(release, listing string) string {
	name := regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(release) + `\.[0-9][0-9a-z.+~-]*-amd64(-unsigned)?$`)
	var best string
	for line := range strings.Lines(listing) {
		pkg, _, _ := strings.Cut(line, " ")
		if !name.MatchString(pkg) || strings.Contains(pkg, "-rt-") || strings.Contains(pkg, "-cloud-") {
			continue
		}
		if best == "" || slices.Compare(numbers(pkg), numbers(best)) > 0 {
			best = pkg
		}
	}
	return best
}

var digits = regexp.MustCompile(`[0-9]+`)

// numbers are what a version is compared by: 6.12.9 is older than 6.12.115.
func numbers(pkg string) []int {
	var ns []int
	for _, d := range digits.FindAllString(pkg, -1) {
		n, err := strconv.Atoi(d)
		if err != nil {
			continue
		}
		ns = append(ns, n)
	}
	return ns
}

// output runs a host program and has its words in the error.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(said.String()))
	}
	return string(out), nil
}
