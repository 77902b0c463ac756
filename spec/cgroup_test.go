package spec_test

import (
	"testing"

	"github.com/sage-sandbox/sage/spec"
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
			if got := spec.IsSystemdPath(tt.path); got != tt.want {
				t.Errorf("IsSystemdPath(%q): got %v, want %v", tt.path, got, tt.want)
			}
		})
	}
}
