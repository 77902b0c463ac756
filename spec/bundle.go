package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// ConfigName is the file in a bundle that holds the OCI spec.
const ConfigName = "config.json"

// MaxConfigBytes is the largest config.json that is read, in bytes. Engines
// write some 20 KiB; a file a thousand times that size is an attack on the
// runtime's memory, which no cgroup limits yet.
const MaxConfigBytes = 16 << 20

// ParseBundle reads a config.json of at most [MaxConfigBytes] from r. It
// returns a spec with a process that [ValidateProcess] accepts, or an error
// with code [errcode.BundleInvalid] that names the field.
func ParseBundle(r io.Reader) (*specs.Spec, error) {
	s, err := parseBundle(r)
	if err != nil {
		return nil, errcode.Wrap(errcode.BundleInvalid, "read "+ConfigName, err)
	}
	return s, nil
}

func parseBundle(r io.Reader) (*specs.Spec, error) {
	var d *configJSON
	if err := decode(r, &d); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, errors.New("config cannot be null")
	}
	s, err := d.whole()
	if err != nil {
		return nil, err
	}
	if err := checkVersion(s.Version); err != nil {
		return nil, err
	}
	return s, ValidateProcess(s.Process)
}

// configJSON is a [specs.Spec] whose parts for other platforms are left for later:
// encoding/json learns every type that it could meet, met or not, at each start
// of the program, and of these there is none in a bundle for Linux.
type configJSON struct {
	specs.Spec
	Solaris json.RawMessage `json:"solaris"`
	Windows json.RawMessage `json:"windows"`
	VM      json.RawMessage `json:"vm"`
	ZOS     json.RawMessage `json:"zos"`
	FreeBSD json.RawMessage `json:"freebsd"`
}

// whole is the spec with the other platforms' parts, where there are any.
func (d *configJSON) whole() (*specs.Spec, error) {
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		into any
	}{
		{"solaris", d.Solaris, &d.Spec.Solaris},
		{"windows", d.Windows, &d.Spec.Windows},
		{"vm", d.VM, &d.Spec.VM},
		{"zos", d.ZOS, &d.Spec.ZOS},
		{"freebsd", d.FreeBSD, &d.Spec.FreeBSD},
	} {
		if part.raw == nil {
			continue
		}
		if err := explain(json.Unmarshal(part.raw, part.into), len(part.raw)); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return &d.Spec, nil
}

// ParseProcess reads a process.json, as given to exec --process, under the
// same rules as [ParseBundle].
func ParseProcess(r io.Reader) (*specs.Process, error) {
	var p *specs.Process
	err := decode(r, &p)
	if err == nil {
		err = ValidateProcess(p)
	}
	if err != nil {
		return nil, errcode.Wrap(errcode.BundleInvalid, "read process", err)
	}
	return p, nil
}

// ValidateProcess checks what libcontainer would otherwise find out inside the
// container, when it is too late for a readable error.
func ValidateProcess(p *specs.Process) error {
	switch {
	case p == nil:
		return errors.New("process property must not be empty")
	case p.Cwd == "":
		return errors.New("process.cwd: Cwd property must not be empty")
	case !path.IsAbs(p.Cwd):
		return errors.New("process.cwd: Cwd must be an absolute path")
	case len(p.Args) == 0:
		return errors.New("process.args: args must not be empty")
	}
	return nil
}

// checkVersion accepts every release of the 1.x line, as the runtime
// specification promises compatibility within a major version. An engine that
// speaks another one may mean things by its fields that we do not know.
func checkVersion(v string) error {
	major, rest, ok := strings.Cut(v, ".")
	if n, err := strconv.Atoi(major); !ok || err != nil || n != 1 || !startsWithDigit(rest) {
		return fmt.Errorf("ociVersion: saw %.32q, want 1.x.y", v)
	}
	return nil
}

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// decode reads one JSON value and nothing after it: with two documents in one
// file, what a person reads and what the runtime enforces can differ.
func decode(r io.Reader, v any) error {
	data, err := io.ReadAll(io.LimitReader(r, MaxConfigBytes+1))
	switch {
	case err != nil:
		return err
	case len(data) > MaxConfigBytes:
		return fmt.Errorf("file is larger than %d bytes, the most that is read", MaxConfigBytes)
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("file is empty, want a JSON object")
	}
	return explain(json.Unmarshal(data, v), len(data))
}

// explain says where in the document a JSON error lies, and never repeats the
// document itself: it can hold secrets in environment variables.
func explain(err error, size int) error {
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := typeErr.Field
		if field == "" {
			field = "document"
		}
		return fmt.Errorf("%s: saw JSON %s, want %s (at byte %d)", field, kind(typeErr.Value), typeErr.Type, typeErr.Offset)
	}
	if syntaxErr, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not valid JSON at byte %d of %d: %w", syntaxErr.Offset, size, err)
	}
	return err
}

// kind strips the literal that encoding/json appends to "number".
func kind(value string) string {
	name, _, _ := strings.Cut(value, " ")
	return name
}
