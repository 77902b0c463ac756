package sys

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MapWords maps the first count 64-bit words of a file, shared, to read and to
// write with sync/atomic: what one process adds is seen by every other that has
// the file mapped or reads it. The file must be as long; the mapping lasts as
// long as the process.
func MapWords(fd, count int) ([]uint64, error) {
	const word = int(unsafe.Sizeof(uint64(0)))
	b, err := unix.Mmap(fd, 0, count*word, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), count), nil
}
