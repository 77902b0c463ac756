package confine

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Document reads what the runtime has written for this process, from its
// beginning, wherever the writer left a file's position, and closes it. What is
// longer than most bytes is cut, and so is no document.
func Document(fd int, most int64) ([]byte, error) {
	_, _ = unix.Seek(fd, 0, io.SeekStart) // ESPIPE of a pipe
	file := os.NewFile(uintptr(fd), "configuration")
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}
