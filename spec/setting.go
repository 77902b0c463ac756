package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// setting is one key of a profile. The table of them is the only place that
// knows what keys there are: the file's reader, the annotations' reader,
// [Resolve] and the tests go through it.
type setting struct {
	key  string // dotted, below defaults and after sage.sandbox.
	form form
	in   uses
	rule rule
	// limitKey is the key below limits, where it has another name or form.
	limitKey string
	// scale is what one of the key's unit is in [Policy]'s, and unit its name.
	scale int64
	unit  string
	// min and max bound a number in the key's unit.
	min, max int64
	// words are the order of a setting of few, from the strictest on.
	words []string
	// entry brings a word, or each entry of a list, into its one form.
	entry func(string) (string, error)
	set   func(*Policy, value)
}

// uses says where a key may stand.
type uses uint8

const (
	inDefaults uses = 1 << iota
	inLimits
	inAnnotations
)

// rule is how a request is held to its ceiling, which is the value of the key
// below limits, or else the default itself.
type rule uint8

const (
	atMost    rule = iota // a number up to the ceiling, where 0 as a ceiling is none
	turnOn                // true is the tighter one
	turnOff               // false is the tighter one
	oneOf                 // a word among the ceiling's
	rank                  // a word no looser than the ceiling in the order of words
	subset                // a list within the ceiling's
	within                // rules for hosts that the ceiling's cover
	added                 // a list that joins the default's
	unchanged             // nothing but the default itself
)

// in returns the settings that may stand in a place, in the table's order.
func settingsIn(place uses) []setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return s.in&place == 0 })
}

func settingByKey(key string) (setting, bool) {
	i, ok := byKey()[key]
	if !ok {
		return setting{}, false
	}
	return settings[i], true
}

// byKey and byLimit are indexes of settings: a host's file and the built-in
// profiles ask for some hundred of them at each start.
var (
	byKey   = sync.OnceValue(func() map[string]int { return indexed(func(s setting) string { return s.key }) })
	byLimit = sync.OnceValue(func() map[string]int { return indexed(setting.ceilingKey) })
)

func indexed(key func(setting) string) map[string]int {
	out := make(map[string]int, len(settings))
	for i, s := range settings {
		if k := key(s); k != "" {
			out[k] = i
		}
	}
	return out
}

// number checks one that stands for itself, in the key's unit.
func (s setting) number(n int64) (value, error) {
	if n < s.min || n > s.max {
		return value{}, fmt.Errorf("saw %d, want %d to %d", n, s.min, s.max)
	}
	return value{n: n * s.scale}, nil
}

func (s setting) word(text string) (value, error) {
	text, err := s.entry(text)
	return value{s: text}, err
}

// entries checks a list; a value in it may be secret to whoever reads the log,
// so a refusal names its place.
func (s setting) entries(list []string) (value, error) {
	out := make([]string, len(list))
	for i, text := range list {
		var err error
		if out[i], err = s.entry(text); err != nil {
			return value{}, fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return value{list: sorted(out)}, nil
}

// text is v as a person would write it, with its unit.
func (s setting) text(v value) string {
	switch s.form {
	case formNumber:
		return s.numberText(v.n)
	case formFlag:
		return strconv.FormatBool(v.b)
	case formWord:
		return v.s
	case formList, formNumbers:
		return listText(v.list)
	case formPairs:
		return listText(namesOf(v.list))
	}
	return ""
}

// numberText falls back to the policy's unit for a size that an engine gave
// and that is no whole number of the key's.
func (s setting) numberText(n int64) string {
	if n == 0 {
		return "none"
	}
	if n%s.scale == 0 {
		return joinUnit(n/s.scale, s.unit)
	}
	if s.scale == cpuScale {
		return joinUnit(n, "µs of 100 ms")
	}
	return joinUnit(n, "bytes")
}

func joinUnit(n int64, unit string) string {
	if unit == "" {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + " " + unit
}

// errNotOne is for words of which there are few.
func errNotOne(of []string) error {
	return errors.New("saw an unknown word, want one of " + listText(of))
}

// ceilingKey is where the setting's ceiling stands below limits, "" for those
// that have none there.
func (s setting) ceilingKey() string {
	switch {
	case s.in&inLimits == 0:
		return ""
	case s.limitKey != "":
		return s.limitKey
	}
	return s.key
}

func settingByLimit(key string) (setting, bool) {
	i, ok := byLimit()[key]
	if !ok {
		return setting{}, false
	}
	return settings[i], true
}

// ceilingForm differs for a word, of which the ceiling is a set.
func (s setting) ceilingForm() form {
	if s.rule == oneOf {
		return formList
	}
	return s.form
}
