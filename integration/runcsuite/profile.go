package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/sage-sandbox/sage/integration/harness"
)

//go:embed exceptions.txt
var exceptionList string

//go:embed sage-failures.tsv
var sageFailures string

// profile is one policy that sage is judged under.
type profile struct {
	name  string
	host  string            // the host configuration, without hard limits
	known map[string]string // tests that do not pass, by key, and why
	// strict makes a known failure that passes a failure of the run: the list is
	// then what the documentation says of the profile, and has to be true.
	strict bool
}

func parseProfiles(names string) ([]profile, error) {
	var all []profile
	for name := range strings.SplitSeq(names, ",") {
		p, err := newProfile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func newProfile(name string) (profile, error) {
	p := profile{name: name}
	var err error
	switch name {
	case "compat":
		p.host = harness.Compat
		p.known, err = parseExceptions(exceptionList)
	case "sage":
		p.host, p.strict = harness.SoftSage, true
		p.known, err = parseFailures(sageFailures)
	default:
		return p, fmt.Errorf("profile %q has no list of known failures; want compat or sage", name)
	}
	return p, err
}

// policyReasons are all the reasons why a test may fail under a policy. A test
// for which none of them fits is a fault, of sage or of the policy.
var policyReasons = []string{
	"a cgroup namespace for every container",
	"a cgroup of its own, new and read-only",
	"a read-only root has a /tmp of its own",
	"checkpoint is for compat",
	"devices as the host lists them",
	"every resource has a limit",
	"hooks as the host lists them",
	"limits of a running container are not raised",
	"mount destinations are absolute and lead where they say",
	"mount sources exist before the container",
	"mounts are private",
	"mounts are read-only unless the host lists the source, and nosuid, nodev",
	"namespaces are joined as the host lists them",
	"no 32-bit programs",
	"no UNIX sockets",
	"no capabilities",
	"no id-mapped mount without a user namespace",
	"no namespace of the host",
	"no new namespaces",
	"no other program decides on system calls",
	"no realtime and no deadline scheduling",
	"nothing that sage does not know",
	"only resources that restrain",
	"the clocks are the host's",
	"the program is called sage-runtime",
}

// parseFailures reads lines of "file.bats<tab>title<tab>reason".
func parseFailures(text string) (map[string]string, error) {
	known := map[string]string{}
	for _, line := range listLines(text) {
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("failures: %q has %d columns, want file, title and reason", line, len(f))
		}
		key := f[0] + ": " + f[1]
		if _, twice := known[key]; twice {
			return nil, fmt.Errorf("failures: %q is listed twice", key)
		}
		if !slices.Contains(policyReasons, f[2]) {
			return nil, fmt.Errorf("failures: %q has the reason %q, want one of policyReasons", key, f[2])
		}
		known[key] = f[2]
	}
	return known, nil
}
