package spec

import (
	"errors"
	"fmt"
	"math"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// addOCI joins what the engine's own fields ask for to the annotations. A value
// that an engine writes for "no limit" asks for nothing.
func (r *resolver) addOCI(given map[string]*request, s *specs.Spec) error {
	if s.Root != nil && s.Root.Readonly {
		if err := r.addOne(given, keyReadonlyRoot, request{value: value{b: true}, source: "root.readonly"}); err != nil {
			return err
		}
	}
	if s.Linux == nil || s.Linux.Resources == nil {
		return nil
	}
	for _, read := range []func(*specs.LinuxResources) (string, request, error){memoryLimit, cpuLimit, r.pidsLimit} {
		key, q, err := read(s.Linux.Resources)
		if err != nil {
			return errcode.Wrap(errcode.BundleInvalid, "resolve policy", err)
		}
		if key == "" {
			continue
		}
		if err := r.addOne(given, key, q); err != nil {
			return err
		}
	}
	return nil
}

// addOne refuses two different wishes for one thing: whichever held, somebody
// would believe in the other.
func (r *resolver) addOne(given map[string]*request, key string, q request) error {
	asked := given[key]
	switch {
	case asked == nil:
		given[key] = &q
	case q.tightened != "":
		// More than the host gives is the engine's own idea, and yields.
	case !asked.equal(q.value):
		return badAnnotation(key, "saw another value than in %s; want them equal, or one of them away", q.source)
	}
	return nil
}

func memoryLimit(res *specs.LinuxResources) (string, request, error) {
	const field = "linux.resources.memory.limit"
	if res.Memory == nil || res.Memory.Limit == nil || *res.Memory.Limit <= 0 {
		return "", request{}, nil
	}
	return keyMemory, request{value: value{n: *res.Memory.Limit}, source: field}, nil
}

// cpuLimit brings quota and period to the period of the policy, rounded down.
func cpuLimit(res *specs.LinuxResources) (string, request, error) {
	const field = "linux.resources.cpu.quota"
	if res.CPU == nil || res.CPU.Quota == nil || *res.CPU.Quota <= 0 {
		return "", request{}, nil
	}
	quota, period := *res.CPU.Quota, uint64(CPUPeriod)
	if res.CPU.Period != nil && *res.CPU.Period != 0 {
		period = *res.CPU.Period
	}
	if quota > math.MaxInt64/CPUPeriod || period > math.MaxInt64 {
		return "", request{}, errors.New(field + ": saw a quota or period that no kernel takes, want µs")
	}
	n := quota * CPUPeriod / int64(period)
	if n < cpuScale {
		return "", request{}, fmt.Errorf("%s: saw less than one per cent of a core, want at least that", field)
	}
	return keyCPU, request{value: value{n: n}, source: field}, nil
}

// pidsLimit is held to the ceiling instead of refused: Podman sends a number of
// its own for every container, which nobody asked for.
func (r *resolver) pidsLimit(res *specs.LinuxResources) (string, request, error) {
	const field, key = "linux.resources.pids.limit", keyProcesses
	if res.Pids == nil || res.Pids.Limit == nil || *res.Pids.Limit <= 0 {
		return "", request{}, nil
	}
	q := request{value: value{n: *res.Pids.Limit}, source: field}
	if q.n < minProcesses {
		return "", request{}, fmt.Errorf("%s: saw %d, want at least %d", field, q.n, minProcesses)
	}
	if ceiling, ok := r.profile.ceiling(mustSetting(key)); ok && q.n > ceiling.n {
		q.tightened = fmt.Sprintf(" %d, tightened to the ceiling", q.n)
		q.n = ceiling.n
	}
	return key, q, nil
}
