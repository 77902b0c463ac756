package spec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Resolve settles the policy for a bundle: the profile's values, tightened or
// raised up to their ceilings by its annotations and by what its OCI fields ask
// for, each with the reason. It changes neither h nor s.
func Resolve(h *Host, s *specs.Spec) (Resolution, error) {
	if s == nil {
		s = &specs.Spec{}
	}
	requests, err := h.requests(s.Annotations)
	if err != nil {
		return Resolution{}, err
	}
	profile, source, err := h.choose(requests)
	if err != nil {
		return Resolution{}, err
	}
	if profile.Compat {
		return compat(requests)
	}
	r := &resolver{Host: h, profile: profile, settled: map[string]outcome{}}
	if err := r.settleAll(requests, s); err != nil {
		return Resolution{}, err
	}
	if IsPause(s) {
		// It is not the container that whoever wrote the digest has in mind.
		return r.resolution(source), nil
	}
	return checkDigest(r.resolution(source), requests)
}

// choose picks the profile, and says where its name comes from.
func (h *Host) choose(requests map[string]string) (*Profile, string, error) {
	name, asked := requests[keyProfile]
	if !asked {
		return h.Profiles[h.DefaultProfile], "default_profile", nil
	}
	p := h.Profiles[name]
	allowed := name == h.DefaultProfile || slices.Contains(h.AllowedProfiles, name)
	if p == nil || p.Compat || !allowed {
		return nil, "", errcode.Wrap(errcode.ProfileUnavailable, "choose a profile",
			fmt.Errorf("%s%s: saw one that this host does not have or does not let bundles choose, want one of %s", AnnotationPrefix, keyProfile, listText(h.AllowedProfiles)))
	}
	return p, sourceAnnotation, nil
}

const sourceAnnotation = "annotation"

// compat has no policy, so an annotation that asks for some is refused: it
// could not be honoured.
func compat(requests map[string]string) (Resolution, error) {
	if len(requests) > 0 {
		return Resolution{}, errcode.Wrap(errcode.AnnotationInvalid, "read annotations",
			errors.New("saw annotations for sage under the profile compat, which enforces none of them; want the profile to be another, or no annotations"))
	}
	return Resolution{
		Policy:  Policy{Profile: CompatProfile, Compat: true},
		Reasons: []Reason{{Field: keyProfile, Value: CompatProfile, Source: "default_profile"}},
	}, nil
}

// checkDigest compares the policy with the one that the bundle expects (S-020).
func checkDigest(r Resolution, requests map[string]string) (Resolution, error) {
	want, asked := requests[keyDigest]
	if !asked {
		return r, nil
	}
	const hex = "0123456789abcdef"
	got := r.Policy.Digest()
	switch {
	case len(want) != len(got) || !only(want, hex):
		return Resolution{}, badAnnotation(keyDigest, "want %d hexadecimal digits in lower case", len(got))
	case want != got:
		return Resolution{}, errcode.Wrap(errcode.PolicyStale, "compare policies",
			fmt.Errorf("%s%s: saw %s, but this host's policy for the bundle has %s", AnnotationPrefix, keyDigest, want, got))
	}
	return r, nil
}

// outcome is one settled value.
type outcome struct {
	value

	source  string
	ceiling string
	unset   bool // nobody has said anything, and the policy's zero value holds
}

// resolver settles the values of one bundle.
type resolver struct {
	*Host

	profile *Profile
	settled map[string]outcome
}

func (r *resolver) settleAll(requests map[string]string, s *specs.Spec) error {
	given, err := r.parseAll(requests)
	if err != nil {
		return err
	}
	if err := r.addOCI(given, s); err != nil {
		return err
	}
	for _, setting := range settings {
		if err := r.settle(setting, given[setting.key]); err != nil {
			return err
		}
	}
	return r.adjust(given, IsPause(s))
}

// request is a value that a bundle asks for.
type request struct {
	value

	source    string
	tightened string // why the value is not what the bundle said, "" if it is
}

// parseAll reads the annotations in the table's order, so that of two mistakes
// it is always the same that is told.
func (r *resolver) parseAll(requests map[string]string) (map[string]*request, error) {
	given := map[string]*request{}
	for _, s := range settings {
		text, asked := requests[s.key]
		if !asked {
			continue
		}
		v, err := s.fromText(text)
		if err != nil {
			return nil, badAnnotation(s.key, "%w", err)
		}
		given[s.key] = &request{value: v, source: sourceAnnotation}
	}
	return given, nil
}

// settle decides one value: the profile's own, or what was asked for if it is
// not looser than the ceiling.
func (r *resolver) settle(s setting, asked *request) error {
	out := r.byProfile(s)
	if asked != nil {
		ceiling, limited := r.profile.ceiling(s)
		if err := s.over(asked.value, ceiling, r.profile.hostScope(r.mode())); limited && err != nil {
			return r.refused(s.refusal(), asked.field(s), err)
		}
		out = out.replaced(s, asked)
	}
	r.settled[s.key] = out
	return nil
}

// mode is the network mode, which is settled before all that depends on it.
func (r *resolver) mode() NetworkMode { return NetworkMode(r.settled[keyMode].s) }

func (r *resolver) refused(code errcode.Code, field string, err error) error {
	return errcode.Wrap(code, "resolve policy of profile "+r.profile.Name, fmt.Errorf("%s: %w", field, err))
}

// replaced is the profile's value overruled by a request.
func (out outcome) replaced(s setting, asked *request) outcome {
	source := asked.source + asked.tightened
	list := asked.list
	if s.rule == added && len(out.list) > 0 {
		list, source = sorted(append(slices.Clone(out.list), list...)), out.source+", and "+source
	}
	out.value, out.source, out.unset = asked.value, source, false
	out.list = list
	return out
}

// field is what to call the request in a message.
func (q *request) field(s setting) string {
	if q.source == sourceAnnotation {
		return AnnotationPrefix + s.key
	}
	return q.source
}

// refusal is the code for asking too much: of what has a limit in the file, or
// of what is for the profile alone to say.
func (s setting) refusal() errcode.Code {
	if s.in&inLimits != 0 || s.form == formNumber {
		return errcode.LimitExceeded
	}
	return errcode.PermissionDenied
}

// byProfile is the value that holds when nobody asks.
func (r *resolver) byProfile(s setting) outcome {
	p := r.profile
	out := outcome{ceiling: p.ceilingText(s)}
	if s.in&inDefaults == 0 {
		v, ok := p.limits[s.ceilingKey()]
		return out.said(v, ok, "limit")
	}
	v, ok := p.defaults[s.key]
	out = out.said(v, ok, "default")
	// A ceiling without a default of its own: what asks for nothing gets the
	// ceiling, or it would be the one to have no limit at all.
	if c, limited := p.ceiling(s); s.rule == atMost && limited && ok && v.n == 0 && c.n != 0 {
		out.value, out.source = c, c.source("limit")
	}
	return out
}

const notSet = "not set"

// said fills in what the profile has for a value, if anything.
func (out outcome) said(v value, set bool, what string) outcome {
	out.value, out.unset, out.source = v, !set, notSet
	if set {
		out.source = v.source(what)
	}
	return out
}

// source names the profile that set v, which may be one that another extends.
func (v value) source(what string) string { return "profile " + v.from + ": " + what }
