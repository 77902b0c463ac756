package quota_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sage-sandbox/sage/quota"
)

func TestParseNamed(t *testing.T) {
	t.Parallel()
	got, err := quota.ParseNamed("# mine\n\n 42:/srv/a\n7:/srv/b:c\n", "web:9\n db : 10 \n")
	want := quota.Named{42: true, 7: true, 9: true, 10: true}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range [][2]string{{"x:/srv", ""}, {"", "web:x"}, {"", "web"}, {"-1:/a", ""}, {"4294967296:/a", ""}, {":", ""}} {
		if _, err := quota.ParseNamed(bad[0], bad[1]); err == nil {
			t.Errorf("%q: taken, want an error: the id on it could be handed out", bad)
		}
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	for _, r := range []quota.Range{{}, {0, 5}, {5, 4}, {1, quota.MaxProjectID + 1}, {quota.MaxProjectID + 1, quota.MaxProjectID + 9}} {
		if r.Check() == nil {
			t.Errorf("%v: taken", r)
		}
	}
	r := quota.Range{First: 1, Last: quota.MaxProjectID}
	if err := r.Check(); err != nil || r.Size() != uint32(quota.MaxProjectID) || !r.Has(1) || r.Has(0) || r.Has(quota.MaxProjectID+1) {
		t.Errorf("%v: %v, size %d", r, err, r.Size())
	}
}

// TestChoose uses a range up: each id once, none that is named, and then it
// says so.
func TestChoose(t *testing.T) {
	t.Parallel()
	r, named, used := quota.Range{First: 100, Last: 199}, quota.Named{}, map[quota.ProjectID]bool{}
	for i := range quota.ProjectID(10) {
		named[103+i*10] = true
	}
	taken := func(id quota.ProjectID) (bool, error) { return used[id], nil }
	for range 90 {
		id, err := quota.Choose(r, named, rand.Uint32N, taken)
		if err != nil || used[id] || named[id] || !r.Has(id) {
			t.Fatalf("got %d, %v after %d", id, err, len(used))
		}
		used[id] = true
	}
	if id, err := quota.Choose(r, named, rand.Uint32N, taken); !errors.Is(err, quota.ErrExhausted) {
		t.Errorf("got %d, %v, want %v", id, err, quota.ErrExhausted)
	}
}

// TestChooseAsks passes on what whoever keeps the ids has to say, and does not
// ask about what is an administrator's.
func TestChooseAsks(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := quota.Range{First: 1, Last: 2}
	_, err := quota.Choose(r, quota.Named{1: true}, rand.Uint32N, func(id quota.ProjectID) (bool, error) {
		if id != 2 {
			t.Errorf("asked about %d", id)
		}
		return true, broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func FuzzChoose(f *testing.F) {
	f.Add(uint32(1), uint32(3), uint32(2), uint64(0b101))
	f.Add(uint32(1048570), uint32(1048577), uint32(0), uint64(0))
	f.Add(uint32(1), uint32(1<<32-1), uint32(1<<32-1), uint64(1))
	f.Fuzz(func(t *testing.T, first, last, named uint32, used uint64) {
		r := quota.Range{First: quota.ProjectID(first), Last: quota.ProjectID(last)}
		names := quota.Named{quota.ProjectID(named): true}
		taken := func(id quota.ProjectID) (bool, error) { return used>>(uint32(id)%64)&1 != 0, nil }
		id, err := quota.Choose(r, names, rand.Uint32N, taken)
		if err != nil {
			if errors.Is(err, quota.ErrExhausted) && r.Size() > 64 && used != 1<<64-1 && r.Size() > 128 {
				t.Errorf("range %v: exhausted with free ids in it", r)
			}
			return
		}
		if !r.Has(id) || id > quota.MaxProjectID || names[id] || used>>(uint32(id)%64)&1 != 0 {
			t.Errorf("range %v: got %d", r, id)
		}
	})
}

func FuzzParseNamed(f *testing.F) {
	f.Add("1:/a\n", "x:2\n")
	f.Add("#1\n\n", ":::\n")
	f.Fuzz(func(t *testing.T, projects, projid string) {
		named, err := quota.ParseNamed(projects, projid)
		if err == nil && len(named) > strings.Count(projects+projid, ":")+2 {
			t.Errorf("%q, %q: got %v", projects, projid, named)
		}
	})
}
