package hardening

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// UnknownFields refuses a config.json that has, in linux or in process, a field
// that this version of sage does not know, or one field twice. Decoding drops
// such fields without a word, and what they ask for would be missing. The text
// is one that was decoded without an error: what is not JSON is not found here.
func UnknownFields(raw []byte) error {
	s := &scanner{text: raw}
	found := s.object(func(key string) *finding {
		// Decoding takes a key in any case, so any case is looked into.
		switch strings.ToLower(key) {
		case "linux":
			return s.known(reflect.TypeFor[specs.Linux]()).in("linux")
		case "process":
			return s.known(reflect.TypeFor[specs.Process]()).in("process")
		}
		s.skip()
		return nil
	})
	return errcode.Wrap(errcode.PermissionDenied, "harden the bundle", found.err())
}

// UnknownProcessFields is [UnknownFields] for a process.json of exec.
func UnknownProcessFields(raw []byte) error {
	s := &scanner{text: raw}
	found := s.known(reflect.TypeFor[specs.Process]()).in("process")
	return errcode.Wrap(errcode.PermissionDenied, "harden the process", found.err())
}

// finding is a field that is refused; nil is none. Its name is put together on
// the way out, so that fields that are fine cost nothing.
type finding struct{ at, what string }

func (f *finding) in(outer string) *finding {
	if f != nil {
		f.at = outer + f.at
	}
	return f
}

func (f *finding) err() error {
	if f == nil {
		return nil
	}
	return denied(f.at, "%s", f.what)
}

// scanner walks JSON. It exists because decoding once more would cost a percent
// of a container's start.
type scanner struct {
	text  []byte
	at    int
	types map[reflect.Type]map[string]fieldType
}

// fieldType is a field's Go type, and its number in its struct.
type fieldType struct {
	reflect.Type
	number int
}

// peek gives the first byte of the next value, or a bracket that ends one; 0
// is the end of the text.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; strings.IndexByte(" \t\n\r,:", c) < 0 {
			return c
		}
	}
	return 0
}

// object calls f with each key, to consume its value; anything but an object is
// skipped, since its type is for the decoder to refuse.
func (s *scanner) object(f func(key string) *finding) *finding {
	if s.peek() != '{' {
		s.skip()
		return nil
	}
	for s.at++; s.peek() == '"'; {
		if found := f(s.key()); found != nil {
			return found
		}
	}
	s.at++
	return nil
}

func (s *scanner) array(of reflect.Type) *finding {
	if s.peek() != '[' {
		s.skip()
		return nil
	}
	s.at++
	for i := 0; s.peek() != ']' && s.peek() != 0; i++ {
		if found := s.known(of); found != nil {
			return found.in("[" + strconv.Itoa(i) + "]")
		}
	}
	s.at++
	return nil
}

// key reads one with its escapes undone: "linu\u0078" is linux to the decoder.
func (s *scanner) key() string {
	from := s.at
	s.quoted()
	raw := s.text[from:min(s.at, len(s.text))]
	if !bytes.ContainsRune(raw, '\\') {
		return string(bytes.Trim(raw, `"`))
	}
	var key string
	if json.Unmarshal(raw, &key) != nil {
		return string(raw)
	}
	return key
}

// quoted moves past a string.
func (s *scanner) quoted() {
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// skip moves past one value of any kind, by at least one byte.
func (s *scanner) skip() {
	for depth := 0; ; {
		switch s.peek() {
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case '"':
			s.quoted()
		default:
			s.word()
		}
		if depth <= 0 || s.at >= len(s.text) {
			return
		}
	}
}

// word moves past a number, a truth value or null.
func (s *scanner) word() {
	for s.at++; s.at < len(s.text) && strings.IndexByte(" \t\n\r,:]}", s.text[s.at]) < 0; {
		s.at++
	}
}

// known walks a value with the Go type that it is decoded into.
func (s *scanner) known(t reflect.Type) *finding {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	holds := element(t).Kind() == reflect.Struct
	switch {
	case t.Kind() == reflect.Struct:
		return s.knownStruct(t)
	case t.Kind() == reflect.Slice && holds:
		return s.array(t.Elem())
	case t.Kind() == reflect.Map && holds:
		return s.object(func(key string) *finding { return s.known(t.Elem()).in("." + key) })
	}
	s.skip()
	return nil
}

func (s *scanner) knownStruct(t reflect.Type) *finding {
	fields := s.fields(t)
	var seen uint64 // no struct of the specification has as many fields as it has bits
	return s.object(func(key string) *finding {
		field, ok := fields[key]
		bit := uint64(1) << field.number
		switch {
		case !ok:
			return &finding{"." + key, "is not known to this version of sage, so what it would do is not either"}
		case seen&bit != 0:
			return &finding{"." + key, "is there twice, want once"}
		}
		seen |= bit
		return s.known(field.Type).in("." + key)
	})
}

// fields gives those of a struct by their exact names.
func (s *scanner) fields(t reflect.Type) map[string]fieldType {
	if s.types == nil {
		s.types = map[reflect.Type]map[string]fieldType{}
	}
	if s.types[t] == nil {
		s.types[t] = map[string]fieldType{}
		addFields(s.types[t], t)
	}
	return s.types[t]
}

// addFields takes the fields of an embedded struct for the struct's own.
func addFields(to map[string]fieldType, t reflect.Type) {
	for f := range t.Fields() {
		if f.Anonymous {
			addFields(to, f.Type)
		} else {
			to[fieldName(f)] = fieldType{f.Type, len(to)}
		}
	}
}
