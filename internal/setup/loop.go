package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// loopTries bounds the race for a free device with other programs.
const loopTries = 32

// attachLoop makes a block device of the image (loop(4)). With autoclear it
// goes with its last user, which is the caller or the mount: whoever is killed
// in between leaves no device behind.
func attachLoop(image string) (*os.File, error) {
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w; load the module: modprobe loop", err)
	}
	defer control.Close()
	for range loopTries {
		device, err := tryLoop(control, backing)
		if !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return nil, fmt.Errorf("no free loop device in %d tries: others take them", loopTries)
}

func tryLoop(control, backing *os.File) (*os.File, error) {
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, os.NewSyscallError("ioctl(LOOP_CTL_GET_FREE)", err)
	}
	device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	if err := unix.IoctlLoopConfigure(int(device.Fd()), &config); err != nil {
		device.Close()
		return nil, os.NewSyscallError("ioctl(LOOP_CONFIGURE)", err)
	}
	return device, nil
}

// backingFile is the file behind a block device, "" for one that has none.
func backingFile(device string) (string, error) {
	data, err := os.ReadFile("/sys/dev/block/" + device + "/loop/backing_file")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSuffix(string(data), "\n"), err
}

// loopsOf are the block devices, as "major:minor", that image is behind.
func loopsOf(image string) ([]string, error) {
	image, err := filepath.EvalSymlinks(image)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	var devices []string
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "dev"))
		if err != nil {
			continue // gone since
		}
		device := strings.TrimSpace(string(data))
		if file, err := backingFile(device); err == nil && file == image {
			devices = append(devices, device)
		}
	}
	return devices, nil
}
