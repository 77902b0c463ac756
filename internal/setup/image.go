package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mkfsLimit bounds mkfs.xfs, which takes a second.
const mkfsLimit = 5 * time.Minute

// image makes the file that holds the quota file system. Its space is taken at
// once: an image that finds none when it needs it gives EIO to whoever writes,
// and shuts its file system down, which is every container's.
func (j *job) image(ctx context.Context) error {
	if j.Image == "" {
		return nil
	}
	there, err := exists(j.Image)
	if err != nil {
		return err
	}
	if there {
		return j.existingImage()
	}
	if err := j.parents("image", j.Image); err != nil {
		return err
	}
	what := fmt.Sprintf("%s, %s, %s", j.Image, sizeText(j.Size), map[bool]string{true: "sparse", false: "its space taken"}[j.Sparse])
	return j.make("image", item{Kind: kindImage, Path: j.Image}, what, func(it *item) error { return j.makeImage(ctx, it) })
}

// existingImage is mounted as it is; what it holds is never written over.
func (j *job) existingImage() error {
	if err := trustPath(j.Image); err != nil {
		return err
	}
	f, err := os.Open(j.Image)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil || string(magic) != "XFSB" {
		return fmt.Errorf("%s: saw a file that is no image of XFS, want one, or no file; setup writes over nothing", j.Image)
	}
	what := j.Image
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err == nil && st.Blocks*512 < st.Size {
		what += fmt.Sprintf("; %s of its %s are not taken from the file system below: writes fail with EIO when that is full",
			sizeText(st.Size-st.Blocks*512), sizeText(st.Size))
	}
	return j.already("image", what)
}

func (j *job) makeImage(ctx context.Context, it *item) error {
	tmp := tempName(j.Image)
	if err := errors.Join(trustPath(filepath.Dir(j.Image)), removeAll(tmp)); err != nil {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	j.crash("image file")
	if err := j.reserveSpace(f); err != nil {
		return err
	}
	if err := mkfs(ctx, tmp); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// Written down before it gets its name, so that a file of this name is known
	// for ours.
	if it.Ino, err = inode(tmp); err != nil {
		return err
	}
	if err := j.rec.save(); err != nil {
		return err
	}
	j.crash("image whole")
	return publish(tmp, j.Image)
}

func (j *job) reserveSpace(f *os.File) error {
	if err := f.Truncate(j.Size); err != nil || j.Sparse {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	// What is available leaves out root's reserve, which fallocate would take.
	if free := int64(st.Bavail) * st.Bsize; free < j.Size {
		return fmt.Errorf("%s: saw %s free, want %s; name a smaller --size, or a file elsewhere",
			filepath.Dir(j.Image), sizeText(free), sizeText(j.Size))
	}
	err := unix.Fallocate(int(f.Fd()), 0, 0, j.Size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return errors.New("the file system below the image has no fallocate(2): put the image elsewhere, or accept with --sparse that writes fail with EIO when it is full")
	}
	return os.NewSyscallError("fallocate", err)
}

// mkfs makes the file system by the program, since its form is xfsprogs' own.
// Without -K it would give back the space that was just taken.
func mkfs(ctx context.Context, path string) error {
	program, err := findMkfs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, mkfsLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-q", "-K", path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.400s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// findMkfs looks where it is on Debian for whom it is not in the PATH: a root
// who came by su(1).
func findMkfs() (string, error) {
	if path, err := exec.LookPath("mkfs.xfs"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("mkfs.xfs: %w; install xfsprogs (apt-get install xfsprogs, dnf install xfsprogs, apk add xfsprogs)", fs.ErrNotExist)
}
