package shim

import (
	"os"
	"path/filepath"
)

// deletedFile marks a bundle whose container was deleted without an error.
const deletedFile = "sage-deleted"

// recordDeleted may fail: the clean-up then deletes what is already gone, which
// is no error either.
func recordDeleted(bundle string) {
	if bundle == "" {
		return // else the file would land in the working directory, another's bundle
	}
	_ = os.WriteFile(filepath.Join(bundle, deletedFile), nil, 0o600)
}

func isDeleted(bundle string) bool {
	_, err := os.Lstat(filepath.Join(bundle, deletedFile))
	return err == nil
}
