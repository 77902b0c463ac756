package spec_test

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// TestResolveOCI: what an engine writes into the bundle is a request too.
//
// Proves: S-003, S-004, S-005, S-006, S-009.
func TestResolveOCI(t *testing.T) {
	h := parse(t, roomy)
	limit := func(n int64) *int64 { return &n }
	period := func(n uint64) *uint64 { return &n }
	memory := func(n int64) specs.Spec {
		return specs.Spec{Linux: &specs.Linux{Resources: &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: limit(n)}}}}
	}
	cpu := func(quota int64, p *uint64) specs.Spec {
		return specs.Spec{Linux: &specs.Linux{Resources: &specs.LinuxResources{CPU: &specs.LinuxCPU{Quota: limit(quota), Period: p}}}}
	}
	pids := func(n int64) specs.Spec {
		return specs.Spec{Linux: &specs.Linux{Resources: &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: limit(n)}}}}
	}
	tests := []struct {
		name          string
		in            specs.Spec
		annotations   string
		field         string
		value, source string
		code          errcode.Code
		text          string
	}{
		{name: "nothing", field: "resources.memory_mb", value: "1024 MiB", source: "profile agent: default"},
		{name: "no linux resources", in: specs.Spec{Linux: &specs.Linux{}}, field: "resources.memory_mb", value: "1024 MiB", source: "profile agent: default"},
		{name: "empty resources", in: specs.Spec{Linux: &specs.Linux{Resources: &specs.LinuxResources{Memory: &specs.LinuxMemory{}, CPU: &specs.LinuxCPU{}, Pids: &specs.LinuxPids{}}}}, field: "resources.memory_mb", value: "1024 MiB", source: "profile agent: default"},
		{name: "memory", in: memory(2 << 30), field: "resources.memory_mb", value: "2048 MiB", source: "linux.resources.memory.limit"},
		{name: "memory of odd size", in: memory(100_000_001), field: "resources.memory_mb", value: "100000001 bytes", source: "linux.resources.memory.limit"},
		{name: "memory unlimited", in: memory(-1), field: "resources.memory_mb", value: "1024 MiB", source: "profile agent: default"},
		{name: "memory 0", in: memory(0), field: "resources.memory_mb", value: "1024 MiB", source: "profile agent: default"},
		{name: "memory above", in: memory(8192<<20 + 1), code: errcode.LimitExceeded, text: "linux.resources.memory.limit: saw 8589934593 bytes, want at most 8192 MiB"},
		{name: "memory twice alike", in: memory(512 << 20), annotations: "resources.memory_mb=512", field: "resources.memory_mb", value: "512 MiB", source: "annotation"},
		{name: "memory twice", in: memory(512 << 20), annotations: "resources.memory_mb=256", code: errcode.AnnotationInvalid, text: "sage.sandbox.resources.memory_mb: saw another value than in linux.resources.memory.limit"},
		{name: "cpu", in: cpu(50_000, nil), field: "resources.cpu_percent", value: "50 %", source: "linux.resources.cpu.quota"},
		{name: "cpu with another period", in: cpu(50_000, period(50_000)), field: "resources.cpu_percent", value: "100 %", source: "linux.resources.cpu.quota"},
		{name: "cpu rounded down", in: cpu(10_000, period(30_000)), field: "resources.cpu_percent", value: "33333 µs of 100 ms", source: "linux.resources.cpu.quota"},
		{name: "cpu unlimited", in: cpu(-1, period(100_000)), field: "resources.cpu_percent", value: "100 %", source: "profile agent: default"},
		{name: "cpu above", in: cpu(401_000, period(100_000)), code: errcode.LimitExceeded, text: "linux.resources.cpu.quota: saw 401 %, want at most 400 %"},
		{name: "cpu above by a short period", in: cpu(1000, period(1)), code: errcode.LimitExceeded, text: "want at most 400 %"},
		{name: "cpu of nothing", in: cpu(999, period(100_000)), code: errcode.BundleInvalid, text: "less than one per cent of a core"},
		{name: "cpu overflowing", in: cpu(1<<62, period(1)), code: errcode.BundleInvalid, text: "no kernel takes"},
		{name: "period overflowing", in: cpu(1<<40, period(1<<63)), code: errcode.BundleInvalid, text: "no kernel takes"},
		{name: "cpu twice", in: cpu(50_000, nil), annotations: "resources.cpu_percent=51", code: errcode.AnnotationInvalid, text: "saw another value than in linux.resources.cpu.quota"},
		{name: "pids", in: pids(100), field: "resources.max_processes", value: "100", source: "linux.resources.pids.limit"},
		{name: "pids unlimited", in: pids(-1), field: "resources.max_processes", value: "64", source: "profile agent: default"},
		{name: "pids 0", in: pids(0), field: "resources.max_processes", value: "64", source: "profile agent: default"},
		{name: "pids too few", in: pids(3), code: errcode.BundleInvalid, text: "linux.resources.pids.limit: saw 3, want at least 4"},
		{name: "Podman's pids", in: pids(2048), field: "resources.max_processes", value: "1024", source: "linux.resources.pids.limit 2048, tightened to the ceiling"},
		{name: "Podman's pids and an annotation", in: pids(2048), annotations: "resources.max_processes=32", field: "resources.max_processes", value: "32", source: "annotation"},
		{name: "pids twice", in: pids(100), annotations: "resources.max_processes=99", code: errcode.AnnotationInvalid, text: "saw another value than in linux.resources.pids.limit"},
		{name: "read-only root", in: specs.Spec{Root: &specs.Root{Readonly: true}}, field: "files.readonly_root", value: "true", source: "root.readonly"},
		{name: "writable root is no wish", in: specs.Spec{Root: &specs.Root{}}, annotations: "files.readonly_root=true", field: "files.readonly_root", value: "true", source: "annotation"},
		{name: "read-only root twice", in: specs.Spec{Root: &specs.Root{Readonly: true}}, annotations: "files.readonly_root=false", code: errcode.AnnotationInvalid, text: "saw another value than in root.readonly"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Annotations = bundle(pairs(tt.annotations)).Annotations
			r, err := spec.Resolve(h, &tt.in)
			if tt.code != "" {
				checkCode(t, err, tt.code, tt.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := reasons(r)[tt.field]; got.Value != tt.value || got.Source != tt.source {
				t.Errorf("got %s from %q, want %s from %q", got.Value, got.Source, tt.value, tt.source)
			}
		})
	}
}
