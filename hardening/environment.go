package hardening

import (
	"fmt"
	"slices"
	"strings"
)

// runtimePrefix is how libcontainer talks to its own init, before it is
// confined: a variable of the bundle with such a name would be believed.
const runtimePrefix = "_LIBCONTAINER_"

// environment never tells a value, and a variable without a "=" is named by its
// place only: the whole of it may be a secret.
func (h *processor) environment() error {
	names, err := h.names()
	if err != nil {
		return err
	}
	forced, proxy := map[string]bool{}, h.proxyEnv()
	for _, entry := range slices.Concat(proxy, h.policy.Process.ForceEnv) {
		name, _, _ := strings.Cut(entry, "=")
		forced[name] = true
	}
	if h.policy.Process.CommandPath != "" {
		forced["PATH"] = true
	}
	if err := h.allowedNames(names, forced); err != nil {
		return err
	}
	before := h.proc.Env
	h.lastWins(names, forced)
	for _, entry := range proxy {
		h.forceOne(entry, "the way to the container's proxy", names, before)
	}
	h.force(names, before)
	return nil
}

// names gives the name of each variable, by index.
func (h *processor) names() ([]string, error) {
	names := make([]string, len(h.proc.Env))
	for i, entry := range h.proc.Env {
		field := fmt.Sprintf("process.env[%d]", i)
		name, _, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "":
			return nil, invalid(field, "want NAME=value")
		case strings.ContainsRune(entry, 0):
			return nil, invalid(field, "saw a NUL byte")
		case strings.HasPrefix(name, runtimePrefix):
			return nil, denied(field, "saw a name that begins with %s, want none: it would speak to the runtime itself", runtimePrefix)
		}
		names[i] = name
	}
	return names, nil
}

// allowedNames does not ask about variables that are overwritten anyway.
func (h *processor) allowedNames(names []string, forced map[string]bool) error {
	allowed := h.policy.Process.AllowedEnv
	if allowed == nil {
		return nil
	}
	var unknown []string
	for _, name := range names {
		if !forced[name] && !slices.Contains(allowed, name) {
			unknown = append(unknown, fmt.Sprintf("%.64q", name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return denied("process.env", "saw %s, want only names that process.allowed_env_names lists",
		strings.Join(slices.Compact(unknown), ", "))
}

// lastWins keeps of each name the last variable, which is the one that most
// programs would see, and none of a name that the policy sets.
func (h *processor) lastWins(names []string, forced map[string]bool) {
	var out []string
	for i, entry := range h.proc.Env {
		switch {
		case forced[names[i]]:
		case slices.Contains(names[i+1:], names[i]):
			h.drop("process.env", names[i], "set again later")
		default:
			out = append(out, entry)
		}
	}
	h.proc.Env = out
}

func (h *processor) force(had, before []string) {
	entries := slices.Clone(h.policy.Process.ForceEnv)
	if dirs := h.policy.Process.CommandPath; dirs != "" {
		// Before the others: a PATH among these is the host's last word.
		entries = slices.Insert(entries, 0, "PATH="+dirs)
	}
	for _, entry := range entries {
		h.forceOne(entry, "the host sets it in every container", had, before)
	}
}

// forceOne tells why a variable that the bundle does not have is there.
func (h *processor) forceOne(entry, why string, had, before []string) {
	const field = "process.env"
	name, _, _ := strings.Cut(entry, "=")
	h.proc.Env = slices.DeleteFunc(h.proc.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	h.proc.Env = append(h.proc.Env, entry)
	switch {
	case slices.Contains(before, entry):
	case slices.Contains(had, name):
		h.drop(field, name, "the host's value of it wins")
	default:
		h.add(field, name, why)
	}
}
