package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// AnnotationPrefix begins every key of a bundle's annotations that is sage's.
const AnnotationPrefix = "sage.sandbox."

// The annotations that are no setting of a profile.
const (
	keyProfile = "profile"
	keyDigest  = "policy_digest"
)

// maxEntries bounds a list in an annotation. A bundle's author may be anybody,
// and each entry is compared with each of the host's.
const maxEntries = 1024

// AnnotationKeys are the keys that a bundle's annotations may have, without the
// prefix, in the order in which they are told.
func AnnotationKeys() []string {
	keys := []string{keyProfile}
	for _, s := range settingsIn(inAnnotations) {
		keys = append(keys, s.key)
	}
	return append(keys, keyDigest)
}

func knownAnnotation(key string) bool { return slices.Contains(AnnotationKeys(), key) }

func badAnnotation(key, format string, args ...any) error {
	return errcode.Wrap(errcode.AnnotationInvalid, "read annotations", fmt.Errorf(AnnotationPrefix+key+": "+format, args...))
}

// requests gives the annotations that are for sage, by key. One that looks as
// if it were and is not known ends the container: whoever wrote it believes in
// a limit that nothing would enforce (S-015, G-26).
func (h *Host) requests(annotations map[string]string) (map[string]string, error) {
	out := map[string]string{}
	for _, full := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(strings.ToLower(full), "sage.") {
			continue
		}
		key, ok := strings.CutPrefix(full, AnnotationPrefix)
		if !ok || !knownAnnotation(key) {
			return nil, errcode.Wrap(errcode.AnnotationInvalid, "read annotations",
				fmt.Errorf("saw the unknown key %.96q; the nearest that there is: %s", full, AnnotationPrefix+nearest(full)))
		}
		if !h.allowsAnnotation(key) {
			return nil, badAnnotation(key, "this host lets bundles carry only: %s (allowed_annotations)", listText(h.AllowedAnnotations))
		}
		out[key] = annotations[full]
	}
	return out, nil
}

// nearest is the key that a misspelled one was meant to be: one with the same
// last part, or else the one of the fewest changes.
func nearest(full string) string {
	last := full[strings.LastIndexByte(full, '.')+1:]
	keys := AnnotationKeys()
	if i := slices.IndexFunc(keys, func(key string) bool { return strings.HasSuffix("."+key, "."+last) }); i >= 0 {
		return keys[i]
	}
	return slices.MinFunc(keys, func(a, b string) int {
		return distance(full, AnnotationPrefix+a) - distance(full, AnnotationPrefix+b)
	})
}

// distance counts the bytes to insert, delete or replace to make a of b, up to
// the length of any key that there is: nobody misspells more.
func distance(a, b string) int {
	a = a[:min(len(a), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost = 1 + min(left, row[j], row[j+1])
			}
			left, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

func (h *Host) allowsAnnotation(key string) bool {
	return slices.Contains(h.AllowedAnnotations, "*") || slices.Contains(h.AllowedAnnotations, key)
}

// fromText reads an annotation's value, of which no message repeats more than
// its numbers.
func (s setting) fromText(text string) (value, error) {
	switch s.form {
	case formNumber:
		n, ok := decimal(text)
		if !ok || n == 0 {
			return value{}, errors.New("saw no whole number above 0 in decimal digits")
		}
		return s.number(n)
	case formFlag:
		if text != "true" && text != "false" {
			return value{}, errors.New("want true or false")
		}
		return value{b: text == "true"}, nil
	case formWord:
		return s.word(text)
	case formList, formNumbers:
		list, err := splitList(text, s.form)
		if err != nil {
			return value{}, err
		}
		return s.entries(list)
	case formPairs:
	}
	return value{}, errors.New("cannot be an annotation")
}

// splitList takes "a,b" and ["a","b"].
func splitList(text string, f form) ([]string, error) {
	list, err := splitComma(text), error(nil)
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		list, err = splitJSON(text, f)
	}
	if err == nil && len(list) > maxEntries {
		err = fmt.Errorf("saw %d entries, want at most %d", len(list), maxEntries)
	}
	return list, err
}

// splitComma leaves an empty entry to the entries' own check, so that "" is no
// list: none is written [], which cannot come of a variable left unset.
func splitComma(text string) []string {
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.Trim(list[i], " ")
	}
	return list
}

func splitJSON(text string, f form) ([]string, error) {
	bad := fmt.Errorf("saw no JSON array, want %s", f)
	if f == formList {
		var list []*string
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil, bad
		}
		return pointed(list, bad)
	}
	var list []*uint16
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil, bad
	}
	out := make([]string, len(list))
	for i, n := range list {
		if n == nil {
			return nil, bad
		}
		out[i] = strconv.Itoa(int(*n))
	}
	return out, nil
}

// pointed refuses null, which encoding/json takes for an empty string.
func pointed(list []*string, bad error) ([]string, error) {
	out := make([]string, len(list))
	for i, s := range list {
		if s == nil {
			return nil, bad
		}
		out[i] = *s
	}
	return out, nil
}
