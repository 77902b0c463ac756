package doctor

import (
	"fmt"
	"slices"
)

// IsHostNamespace says whether the namespace with that inode number is the
// host's, or the one of this process. It is true also where the kernel does not
// let the host's be seen: who asks has something to refuse.
func IsHostNamespace(kind string, ino uint64) bool {
	others, err := strangers()
	if err != nil {
		return true
	}
	id := fmt.Sprintf("%s:[%d]", kind, ino)
	return slices.ContainsFunc(others, func(of namespaceSet) bool { return of[kind] == "" || of[kind] == id })
}
