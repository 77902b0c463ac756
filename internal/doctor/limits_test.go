package doctor

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/spec"
)

func TestParseLimits(t *testing.T) {
	got, err := parseLimits(testdata(t, "limits-6.18"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(limitNames) {
		t.Errorf("%d limits, want %d", len(got), len(limitNames))
	}
	for name, want := range map[string]spec.Rlimit{
		"RLIMIT_CPU":    {Soft: 5, Hard: 7},
		"RLIMIT_FSIZE":  {Soft: 1 << 40, Hard: unlimited},
		"RLIMIT_CORE":   {},
		"RLIMIT_NOFILE": {Soft: 100, Hard: 200},
		"RLIMIT_NICE":   {}, // has no unit in the file
		"RLIMIT_RTTIME": {Soft: 18446744073709551614, Hard: unlimited},
		"RLIMIT_AS":     {Soft: unlimited, Hard: unlimited},
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	var infinity uint64 = unix.RLIM_INFINITY
	if infinity != unlimited {
		t.Errorf("unlimited is %d, want RLIM_INFINITY, %d", uint64(unlimited), infinity)
	}
}

func TestParseLimitsRefuses(t *testing.T) {
	good := testdata(t, "limits-6.18")
	const files = "Max open files            100                  200                  files     \n"
	tests := []struct{ name, with, want string }{
		{"missing", "", "RLIMIT_NOFILE: this kernel does not report it"},
		{"empty line", "\n", "too short"},
		{"one value", "Max open files            100\n", "RLIMIT_NOFILE: \"100\\n\": want a soft and a hard limit"},
		{"a word", strings.Replace(files, "100", "any", 1), "RLIMIT_NOFILE: strconv.ParseUint"},
		{"negative", strings.Replace(files, "200", " -1", 1), "RLIMIT_NOFILE: strconv.ParseUint"},
		{"too large", strings.Replace(files, "200 ", "18446744073709551616 ", 1), "RLIMIT_NOFILE: strconv.ParseUint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, files, tt.with, 1)
			if text == good {
				t.Fatal("the file has no such line")
			}
			got, err := parseLimits(text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", got, err, tt.want)
			}
		})
	}
}
