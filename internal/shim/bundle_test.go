package shim

import (
	"testing"
)

func TestDeletedRecord(t *testing.T) {
	bundle := t.TempDir()
	t.Chdir(bundle)
	recordDeleted("")
	if isDeleted(bundle) {
		t.Fatal("a new bundle counts as deleted")
	}
	recordDeleted(bundle)
	if !isDeleted(bundle) {
		t.Fatal("a recorded delete is not found")
	}
}
