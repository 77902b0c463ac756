package spec

import (
	"errors"
	"fmt"
	"slices"
)

// ceiling is the most that may be asked of s under p; ok is false where there
// is none. Without a key below limits it is the default itself.
func (p *Profile) ceiling(s setting) (v value, ok bool) {
	if v, ok = p.limits[s.ceilingKey()]; ok {
		return v, true
	}
	v, ok = p.defaults[s.key]
	switch {
	case s.key == keyPrivileged && !ok:
		return value{b: p.defaults[keyHardLimits].b}, true
	case s.rule == unchanged:
		return v, true
	case s.rule == oneOf:
		v.list = []string{v.s}
	case s.rule == within && len(v.list) == 0:
		// Without a word from the host, hosts are left to those whose mode they
		// are of use in: that one has its own ceiling.
		v.list = []string{anyName}
	}
	return v, ok
}

// ceilingText is the ceiling as a person would write it, "" for none.
func (p *Profile) ceilingText(s setting) string {
	v, ok := p.ceiling(s)
	switch {
	case !ok || s.in&inAnnotations == 0 || s.limitless(v):
		return "" // nothing that a bundle could ask for
	case s.rule == oneOf:
		return listText(s.choices(v.list))
	case s.rule == within:
		return listText(v.list)
	}
	return s.text(v)
}

// limitless tells of a ceiling that leaves every value open.
func (s setting) limitless(ceiling value) bool {
	switch s.rule {
	case atMost:
		return ceiling.n == 0
	case turnOn:
		return !ceiling.b
	case turnOff:
		return ceiling.b
	case added:
		return true
	case oneOf, rank, subset, within, unchanged:
		return false
	}
	return false
}

// choices are the words that may be chosen, from the strictest on.
func (s setting) choices(ceiling []string) []string {
	return slices.DeleteFunc(slices.Clone(s.words), func(w string) bool { return !s.mayChoose(w, ceiling) })
}

// over tells why v is looser than ceiling, or nil.
func (s setting) over(v, ceiling value, scope hostScope) error {
	switch s.rule {
	case atMost:
		return s.overNumber(v, ceiling)
	case turnOn:
		return unlessEqual(v.b || !ceiling.b, "saw false, want true")
	case turnOff:
		return unlessEqual(!v.b || ceiling.b, "saw true, want false")
	case oneOf:
		return s.overWords(v.s, ceiling.list)
	case rank:
		return s.overRank(v.s, ceiling.s)
	case subset:
		return overSubset(v.list, ceiling.list)
	case within:
		return overHosts(v.list, ceiling.list, scope)
	case unchanged:
		return unlessEqual(v.s == ceiling.s, "saw another value than the host's, which no bundle may change")
	case added:
		return nil
	}
	return errors.New("cannot be compared")
}

func unlessEqual(ok bool, text string) error {
	if ok {
		return nil
	}
	return errors.New(text)
}

func (s setting) overNumber(v, ceiling value) error {
	if ceiling.n != 0 && (v.n > ceiling.n || v.n == 0) {
		return fmt.Errorf("saw %s, want at most %s", s.numberText(v.n), s.numberText(ceiling.n))
	}
	return nil
}

// mayMode lets a bundle have no network whatever else there is.
func mayMode(mode string, ceiling []string) bool {
	return mode == string(NetworkNone) || slices.Contains(ceiling, mode)
}

func (s setting) mayChoose(word string, ceiling []string) bool {
	if s.key == keyMode {
		return mayMode(word, ceiling)
	}
	return slices.Contains(ceiling, word)
}

func (s setting) overWords(word string, ceiling []string) error {
	if s.mayChoose(word, ceiling) {
		return nil
	}
	return fmt.Errorf("saw %s, want one of %s", word, listText(s.choices(ceiling)))
}

func (s setting) overRank(word, ceiling string) error {
	if slices.Index(s.words, word) <= slices.Index(s.words, ceiling) {
		return nil
	}
	return fmt.Errorf("saw %s, want %s or stricter", word, ceiling)
}

func overSubset(list, ceiling []string) error {
	for _, entry := range list {
		if !slices.Contains(ceiling, entry) {
			return fmt.Errorf("saw %s, want a part of: %s", entry, listText(ceiling))
		}
	}
	return nil
}
