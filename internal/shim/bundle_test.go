package shim

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestIsSystemdPath(t *testing.T) {
	tests := []struct {
		path string
		want bool
	}{
		{"system.slice:docker:c1", true},
		{"kubepods-burstable-pod1.slice:cri-containerd:c1", true},
		{":cri-containerd:c1", true},
		{"-:sage:c1", true},
		{"system.slice::c1", true},
		{"", false},
		{"/docker/c1", false},
		{"/system.slice/docker-c1.scope", false},
		{"system.slice:docker", false},
		{"system.slice:docker:", false},
		{"system.slice:docker:c1:x", false},
		{"/a:b:c", false},
		{"default:app:c1", false},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			if got := isSystemdPath(tt.path); got != tt.want {
				t.Errorf("isSystemdPath(%q): got %v, want %v", tt.path, got, tt.want)
			}
		})
	}
}

func TestCgroupsPath(t *testing.T) {
	tests := []struct {
		name, spec, want string
	}{
		{"set", `{"ociVersion":"1.2.0","linux":{"cgroupsPath":"a.slice:b:c"}}`, "a.slice:b:c"},
		{"unset", `{"linux":{}}`, ""},
		{"no linux", `{}`, ""},
		{"null", `{"linux":null}`, ""},
		{"wrong type", `{"linux":{"cgroupsPath":7}}`, ""},
		{"not JSON", `{"linux":`, ""},
		{"empty", "", ""},
		{"deep", strings.Repeat("[", 1<<20), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bundle := t.TempDir()
			write(t, filepath.Join(bundle, "config.json"), tt.spec)
			if got := cgroupsPath(bundle); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := cgroupsPath(t.TempDir()); got != "" {
		t.Errorf("without config.json: got %q, want none", got)
	}
}

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
