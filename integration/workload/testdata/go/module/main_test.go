package main

import (
	"os/exec"
	"testing"
)

func TestAdd(t *testing.T) {
	if got := add(500); got != 500 {
		t.Errorf("got %d, want 500", got)
	}
	if out, err := exec.Command("echo", "child").Output(); err != nil || string(out) != "child\n" {
		t.Errorf("got %q and %v", out, err)
	}
}
