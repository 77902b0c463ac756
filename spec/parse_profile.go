package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// draft is a profile as it stands in the file, without what it extends.
type draft struct {
	Profile

	extends string
	line    int
}

func (f *hostFile) readProfiles(it item) error {
	children, err := it.children()
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := f.checkProfileName(child); err != nil {
			return err
		}
		d, err := readProfile(child)
		if err != nil {
			return err
		}
		f.drafts[child.name] = d
	}
	return nil
}

// checkProfileName keeps names apart that differ in case only: "Sage" would
// leave sage itself as it was, to the surprise of whoever wrote it.
func (f *hostFile) checkProfileName(it item) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	name := it.name
	if name == "" || len(name) > 63 || strings.Trim(name, letters+"._-") != "" || !strings.ContainsRune(letters, rune(name[0])) {
		return it.fault("want a name of at most 63 letters, digits, dots, hyphens and underscores, with a letter or digit first")
	}
	if name == CompatProfile {
		return it.fault("compat has no policy that could be set; want a profile of another name")
	}
	for other := range f.Profiles {
		if other != name && strings.EqualFold(other, name) {
			return it.fault("differs from the profile %s in case only; want that name, or another", other)
		}
	}
	for other := range f.drafts {
		if strings.EqualFold(other, name) {
			return it.fault("differs from the profile %s in case only; want another name", other)
		}
	}
	return nil
}

func readProfile(it item) (draft, error) {
	d := draft{line: it.line}
	d.Name, d.defaults, d.limits = it.name, map[string]value{}, map[string]value{}
	text := func(into *string) func(item) error {
		return func(it item) (err error) {
			*into, err = it.string()
			return err
		}
	}
	err := it.fields(map[string]func(item) error{
		"extends": text(&d.extends), "label": text(&d.Label), "description": text(&d.Description),
		"defaults": func(it item) error { return readSettings(it, d.Name, defaultKeys(), d.defaults) },
		"limits":   func(it item) error { return readSettings(it, d.Name, limitKeys(), d.limits) },
	})
	return d, err
}

// reader is how the value of one key is read.
type reader func(item) (value, error)

func defaultKeys() map[string]reader {
	keys := map[string]reader{}
	for _, s := range settingsIn(inDefaults) {
		keys[s.key] = s.read
	}
	return keys
}

func limitKeys() map[string]reader {
	keys := map[string]reader{}
	for _, s := range settingsIn(inLimits) {
		keys[s.ceilingKey()] = s.readCeiling
	}
	return keys
}

// readSettings reads one block of a profile: keys of the table with a dot are
// one level down.
func readSettings(it item, profile string, keys map[string]reader, into map[string]value) error {
	known := map[string]func(item) error{}
	put := func(key string) func(item) error {
		return func(it item) error {
			v, err := keys[key](it)
			v.from, v.line = profile, it.line
			into[key] = v
			return err
		}
	}
	groups := map[string]map[string]func(item) error{}
	for key := range keys {
		group, name, nested := strings.Cut(key, ".")
		if !nested {
			known[key] = put(key)
			continue
		}
		if groups[group] == nil {
			groups[group] = map[string]func(item) error{}
			known[group] = func(it item) error { return it.fields(groups[group]) }
		}
		groups[group][name] = put(key)
	}
	return it.fields(known)
}

func (s setting) read(it item) (value, error) { return s.readAs(it, s.form) }

// readCeiling reads a key below limits.
func (s setting) readCeiling(it item) (value, error) { return s.readAs(it, s.ceilingForm()) }

func (s setting) readAs(it item, f form) (value, error) {
	switch f {
	case formNumber:
		n, err := it.number()
		if err != nil {
			return value{}, err
		}
		return located(it)(s.number(n))
	case formFlag:
		b, err := it.flag()
		return value{b: b}, err
	case formWord:
		text, err := it.string()
		if err != nil {
			return value{}, err
		}
		return located(it)(s.word(text))
	case formList:
		return s.readList(it, nodeString)
	case formNumbers:
		return s.readList(it, nodeInt)
	case formPairs:
		return s.readPairs(it)
	}
	return value{}, it.fault("cannot be set")
}

// located puts the place in front of an error about a value's content.
func located(it item) func(value, error) (value, error) {
	return func(v value, err error) (value, error) {
		if err != nil {
			return value{}, it.fault("%w", err)
		}
		return v, nil
	}
}

func (s setting) readList(it item, kind nodeKind) (value, error) {
	list, err := it.list(kind)
	if err != nil {
		return value{}, err
	}
	return located(it)(s.entries(list))
}

func (s setting) readPairs(it item) (value, error) {
	children, err := it.children()
	if err != nil {
		return value{}, err
	}
	pairs := []string{}
	for _, child := range children {
		text, err := child.string()
		if err != nil {
			return value{}, err
		}
		if _, err := s.entry(child.name); err != nil {
			return value{}, child.fault("%w", err)
		}
		if strings.ContainsRune(text, 0) {
			return value{}, child.fault("saw a NUL, which no variable can hold")
		}
		pairs = append(pairs, child.name+"="+text)
	}
	return value{list: sorted(pairs)}, nil
}

// flattenAll replaces the built-in profiles that the file names and adds the
// others, each with what it extends in it.
func (f *hostFile) flattenAll() error {
	builtin := f.Profiles
	f.Profiles = maps.Clone(builtin)
	for _, name := range slices.Sorted(maps.Keys(f.drafts)) {
		p, err := f.flatten(name, builtin, nil)
		if err != nil {
			return err
		}
		f.Profiles[name] = p
	}
	return nil
}

// flatten follows extends down to a built-in profile. A profile of the host's
// own that extends none starts from the strictest.
func (f *hostFile) flatten(name string, builtin map[string]*Profile, path []string) (*Profile, error) {
	d, inFile := f.drafts[name]
	if !inFile {
		return builtin[name], nil
	}
	base := baseOf(d.extends, name, builtin)
	if err := f.checkExtends(d, base, builtin, path); err != nil {
		return nil, err
	}
	parent := builtin[base]
	if base != name {
		var err error
		if parent, err = f.flatten(base, builtin, append(path, name)); err != nil {
			return nil, err
		}
	}
	return d.over(parent), nil
}

func baseOf(extends, name string, builtin map[string]*Profile) string {
	switch {
	case extends != "":
		return extends
	case builtin[name] != nil:
		return name
	}
	return DefaultProfile
}

func (f *hostFile) checkExtends(d draft, base string, builtin map[string]*Profile, path []string) error {
	fail := func(err error) error {
		return faultAt(d.line, join("profiles", d.Name)+".extends", err)
	}
	_, inFile := f.drafts[base]
	switch {
	case base == CompatProfile:
		return fail(errors.New("saw compat, which has no policy to start from"))
	case !inFile && builtin[base] == nil:
		return fail(fmt.Errorf("saw %.64q, want one of %s", base, listText(f.ProfileNames())))
	case base == d.Name && builtin[base] == nil, slices.Contains(path, base):
		return fail(fmt.Errorf("saw %s, which comes from %s itself", base, d.Name))
	}
	return nil
}

// over is the draft with what it does not set taken from parent. A list is
// replaced as a whole.
func (d draft) over(parent *Profile) *Profile {
	p := &Profile{Name: d.Name, Label: d.Label, Description: d.Description}
	if d.Label == "" {
		p.Label = parent.Label
	}
	if d.Description == "" {
		p.Description = parent.Description
	}
	p.defaults, p.limits = maps.Clone(parent.defaults), maps.Clone(parent.limits)
	maps.Copy(p.defaults, d.defaults)
	maps.Copy(p.limits, d.limits)
	return p
}
