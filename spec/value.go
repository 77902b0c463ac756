package spec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// value is what one key of a profile, an annotation or a field of the bundle
// says. Which part of it counts follows from its form.
type value struct {
	n    int64 // in the unit of [Policy], not that of the key
	b    bool
	s    string
	list []string // canonical, sorted, each once
	// from is the profile that set it and line where, 0 for the built-in ones
	// and for what does not come from the host's file.
	from string
	line int
}

// form is that of a key's value.
type form uint8

const (
	formNumber form = iota
	formFlag
	formWord
	formList
	formNumbers // a list whose entries are numbers
	formPairs   // a mapping of names to strings, kept as NAME=value
)

func (f form) String() string {
	switch f {
	case formNumber:
		return "a whole number"
	case formFlag:
		return "true or false"
	case formWord:
		return "a string"
	case formList:
		return "a list of strings"
	case formNumbers:
		return "a list of numbers"
	case formPairs:
		return "a mapping of names to strings"
	}
	return "nothing"
}

// equal compares what two values say, not where they come from.
func (v value) equal(w value) bool {
	return v.n == w.n && v.b == w.b && v.s == w.s && slices.Equal(v.list, w.list)
}

// sorted is the form in which two lists that say the same are equal. Numbers
// are put in their own order: 80 is before 443.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b string) int {
		if isDigits(a) && isDigits(b) && len(a) != len(b) {
			return cmp.Compare(len(a), len(b))
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(list)
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// decimal reads a whole number that has one spelling only: what YAML and Go
// read beyond it (0x10, 010, 1_000, +5) two readers take for different numbers.
func decimal(s string) (int64, bool) {
	if !isDigits(s) || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
