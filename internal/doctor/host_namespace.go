package doctor

import (
	"fmt"
	"io/fs"
	"os"
)

// IsHostNamespace says whether the namespace with that inode number is the
// host's, or the one of this process. It is true also where the kernel does not
// let the host's be seen: who asks has something to refuse.
func IsHostNamespace(kind string, ino uint64) bool {
	host, err := hostProcess(os.DirFS("/proc"))
	if err != nil {
		return true
	}
	for _, dir := range []fs.FS{host, os.DirFS(caller)} {
		id, err := namespace(dir, kind)
		if err != nil || id == fmt.Sprintf("%s:[%d]", kind, ino) {
			return true
		}
	}
	return false
}
