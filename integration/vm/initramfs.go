package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bootModules bring the guest to its root file system; all others it loads
// from there.
var bootModules = []string{"virtio_pci", "virtio_blk", "virtio_console", "9p", "9pnet_virtio", "overlay", "xfs"}

// writeInitramfs makes the archive that the kernel unpacks: this program as
// init and the boot modules in their order.
func writeInitramfs(ctx context.Context, path, program string, k kernel) error {
	init, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	files, err := moduleFiles(ctx, k, bootModules)
	if err != nil {
		return err
	}
	var a archive
	for _, dir := range []string{"modules", "dev", "proc", "sys"} {
		a.add(dir, modeDir|0o755, nil)
	}
	a.add("init", modeFile|0o755, init)
	for i, file := range files {
		image, err := unpacked(ctx, file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		a.add(fmt.Sprintf("modules/%03d-%s", i, name), modeFile|0o644, image)
	}
	return os.WriteFile(path, a.bytes(), 0o644)
}

// moduleFiles resolves names to files, each after those that it depends on.
func moduleFiles(ctx context.Context, k kernel, names []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	for _, name := range names {
		out, err := output(ctx, "/", "modprobe", "-d", k.dir, "-S", k.version, "--show-depends", name)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", name, err)
		}
		for line := range strings.Lines(out) {
			// "insmod PATH [parameters]", or "builtin NAME".
			if f := strings.Fields(line); len(f) > 1 && f[0] == "insmod" && !seen[f[1]] {
				seen[f[1]] = true
				files = append(files, f[1])
			}
		}
	}
	return files, nil
}

// unpacked is a module as init_module(2) takes it.
func unpacked(ctx context.Context, file string) ([]byte, error) {
	program := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[filepath.Ext(file)]
	if program == "" {
		return os.ReadFile(file)
	}
	out, err := output(ctx, "/", program, "-dc", file)
	return []byte(out), err
}

// archive is a cpio in the "newc" format of
// Documentation/driver-api/early-userspace/buffer-format.rst.
type archive struct {
	buf   bytes.Buffer
	inode int
}

// File types of inode(7).
const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

func (a *archive) add(name string, mode int, content []byte) {
	a.inode++
	// magic ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
	fmt.Fprintf(&a.buf, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	a.buf.WriteString(name + "\x00")
	a.pad()
	a.buf.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.buf.Len()%4 != 0 {
		a.buf.WriteByte(0)
	}
}

// bytes ends the archive.
func (a *archive) bytes() []byte {
	a.add("TRAILER!!!", 0, nil)
	return a.buf.Bytes()
}
