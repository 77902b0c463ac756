package hardening

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Proves: S-015.
func TestUnknownFields(t *testing.T) {
	for _, c := range []struct{ name, text, denied string }{
		{"none", `{"linux": {"sysctl": {"any.key": "1"}, "devices": [{"path": "/dev/x"}]}, "process": {"cwd": "/"}}`, ""},
		{"outside of linux and process", `{"future": {"x": 1}, "annotations": {"y": "z"}}`, ""},
		{"in linux", `{"linux": {"future": null}}`, "linux.future: is not known"},
		{"in process", `{"a": [1, {"b": "}"}], "process": {"user": {"uid": 0, "future": 1}}}`, "process.user.future: is not known"},
		{"in a list", `{"linux": {"namespaces": [{"type": "pid"}, {"type": "net", "future": 1}]}}`, "linux.namespaces[1].future"},
		{"in a map", `{"linux": {"timeOffsets": {"boottime": {"secs": 1, "future": 1}}}}`, "linux.timeOffsets.boottime.future"},
		{"in an embedded struct", `{"linux": {"resources": {"blockIO": {"weightDevice": [{"major": 8, "minor": 0, "weight": 1, "future": 1}]}}}}`, "linux.resources.blockIO.weightDevice[0].future"},
		{"in another case", `{"linux": {"maskedpaths": []}}`, "linux.maskedpaths"},
		{"linux in another case", `{"Linux": {"future": 1}}`, "linux.future"},
		{"escaped", `{"linu\u0078": {"future": 1}}`, "linux.future"},
		{"an escaped field", `{"linux": {"futur\u0065": 1}}`, "linux.future"},
		{"a quoted brace", `{"hostname": "\"}{", "linux": {"future": 1}}`, "linux.future"},
		{"twice", `{"linux": {"sysctl": {}, "sysctl": {}}}`, "linux.sysctl: is there twice"},
		{"the second linux", `{"linux": {}, "linux": {"future": 1}}`, "linux.future"},
		{"the wrong type", `{"linux": [1, 2], "process": "x"}`, ""},
		{"null", `{"linux": null, "process": null}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := UnknownFields([]byte(c.text))
			if c.denied != "" {
				outcome{denied: c.denied}.wantError(t, err)
			} else if err != nil {
				t.Errorf("got %v, want no error", err)
			}
		})
	}
	outcome{denied: "process.future"}.wantError(t, UnknownProcessFields([]byte(`{"cwd": "/", "future": 1}`)))
	if err := UnknownProcessFields([]byte(`{"cwd": "/", "args": ["x"]}`)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// FuzzUnknownFields compares the walk with the decoder that it is to save: what
// the decoder takes for known in linux and process must be known here too.
func FuzzUnknownFields(f *testing.F) {
	for _, seed := range []string{
		`{"linux": {"sysctl": {"a": "b"}}}`, `{"process": {"args": ["a\"b"]}}`, `{"linux": {"x": 1}}`, `{`, `"`, `[[`, `{"linux":`, `{"a"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := UnknownFields(raw)
		if err != nil && errcode.Of(err) != errcode.PermissionDenied {
			t.Errorf("got %v, want a code", err)
		}
		var known struct {
			Linux   *specs.Linux
			Process *specs.Process
		}
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.DisallowUnknownFields()
		if json.Valid(raw) && d.Decode(&known) != nil && err == nil {
			// Not every error of the decoder is about an unknown field, but this one
			// is, and then the walk must have seen it.
			if decodeErr := json.Unmarshal(raw, &known); decodeErr == nil && onlyLinuxAndProcess(raw) {
				t.Errorf("got no error for %q, want what the decoder found", raw)
			}
		}
	})
}

// onlyLinuxAndProcess says that an unknown field can be nowhere else.
func onlyLinuxAndProcess(raw []byte) bool {
	var top map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil {
		return false
	}
	for key := range top {
		if !strings.EqualFold(key, "linux") && !strings.EqualFold(key, "process") {
			return false
		}
	}
	return true
}
