// Package guesttest proves that the virtual machine is the one that the tests of
// hard limits need: its kernel, its cgroups, its quotas, its swap, its systemd.
// It tests the ground and not what is built on it. Build tag "vm".
package guesttest
