package hardening

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// UnknownFields refuses a config.json that has, in linux or in process, a field
// that this version of sage does not know, or one field twice. Decoding drops
// such fields without a word, and what they ask for would be missing.
func UnknownFields(raw []byte) error {
	if !json.Valid(raw) {
		return invalid("config.json", "want valid JSON")
	}
	s := scanner{text: raw}
	err := s.object(func(key string) error {
		// Decoding takes a key in any case, so any case is looked into.
		switch strings.ToLower(key) {
		case "linux":
			return s.known(reflect.TypeFor[specs.Linux](), "linux")
		case "process":
			return s.known(reflect.TypeFor[specs.Process](), "process")
		}
		s.skip()
		return nil
	})
	return errcode.Wrap(errcode.PermissionDenied, "harden the bundle", err)
}

// UnknownProcessFields is [UnknownFields] for a process.json of exec.
func UnknownProcessFields(raw []byte) error {
	if !json.Valid(raw) {
		return invalid("process", "want valid JSON")
	}
	s := scanner{text: raw}
	err := s.known(reflect.TypeFor[specs.Process](), "process")
	return errcode.Wrap(errcode.PermissionDenied, "harden the process", err)
}

// scanner walks JSON that is known to be valid. It exists because decoding once
// more would cost a percent of a container's start.
type scanner struct {
	text []byte
	at   int
}

// peek gives the first byte of the next value, or a bracket that ends one.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// object calls f with each key, to consume its value; anything but an object is
// skipped, since its type is for the decoder to refuse.
func (s *scanner) object(f func(key string) error) error {
	if s.peek() != '{' {
		s.skip()
		return nil
	}
	s.at++
	for s.peek() != '}' {
		if err := f(s.key()); err != nil {
			return err
		}
	}
	s.at++
	return nil
}

func (s *scanner) array(f func(i int) error) error {
	if s.peek() != '[' {
		s.skip()
		return nil
	}
	s.at++
	for i := 0; s.peek() != ']'; i++ {
		if err := f(i); err != nil {
			return err
		}
	}
	s.at++
	return nil
}

// key reads one with its escapes undone: "linu\u0078" is linux to the decoder.
func (s *scanner) key() string {
	s.peek()
	from := s.at
	s.quoted()
	raw := s.text[from:s.at]
	var key string
	if json.Unmarshal(raw, &key) != nil {
		return string(raw)
	}
	return key
}

// quoted moves past a string.
func (s *scanner) quoted() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}

// skip moves past one value of any kind.
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
		if depth == 0 {
			return
		}
	}
}

// word moves past a number, a truth value or null.
func (s *scanner) word() {
	for s.at < len(s.text) && !strings.ContainsRune(" \t\n\r,:]}", rune(s.text[s.at])) {
		s.at++
	}
}

// known walks a value with the Go type that it is decoded into.
func (s *scanner) known(t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() { //nolint:exhaustive // the others have no fields
	case reflect.Struct:
		return s.knownStruct(t, at)
	case reflect.Slice:
		if element(t).Kind() == reflect.Struct {
			return s.array(func(i int) error { return s.known(t.Elem(), at+"["+strconv.Itoa(i)+"]") })
		}
	case reflect.Map:
		if element(t).Kind() == reflect.Struct {
			return s.object(func(key string) error { return s.known(t.Elem(), at+"."+key) })
		}
	}
	s.skip()
	return nil
}

func (s *scanner) knownStruct(t reflect.Type, at string) error {
	seen := map[string]bool{}
	return s.object(func(key string) error {
		field, ok := jsonField(t, key)
		switch {
		case !ok:
			return denied(at+"."+key, "is not known to this version of sage, so what it would do is not either")
		case seen[key]:
			return denied(at+"."+key, "is there twice, want once")
		}
		seen[key] = true
		return s.known(field, at+"."+key)
	})
}

// jsonField finds a field by its exact name; those of an embedded struct are
// the struct's own.
func jsonField(t reflect.Type, key string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if found, ok := jsonField(f.Type, key); ok {
				return found, true
			}
		} else if fieldName(f) == key {
			return f.Type, true
		}
	}
	return nil, false
}
