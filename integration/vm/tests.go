package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// packages is what the ring runs, in this order. Tests that are called
// TestSystemd* run in a guest with systemd, and those with TestEngine*, which wait
// for daemons most of the time, in one of their own.
var packages = []string{
	"./integration/vm/guesttest",
	"./internal/sys",
	"./quota/xfs",
	"./internal/setup",
	"./integration/hardlimits",
}

// buildTags are the product's own; the ring's tag is added.
const buildTags = "seccomp netgo osusergo urfave_cli_no_docs"

// guests are told by the names of tests, so that no package has to be listed twice
// and none can be forgotten. The longest come first, as some run beside others.
var guests = []struct{ name, prefix string }{{"", "Test"}, {"engines", "TestEngine"}, {systemdGuest, "TestSystemd"}}

const systemdGuest = "systemd"

// payload is what one boot runs.
type payload struct {
	guest   string
	systemd bool
	jobs    []plan.Job
}

// payloads are the script, or the tests in one guest or two.
func (r *ring) payloads(ctx context.Context) ([]payload, error) {
	if r.script != "" {
		job, err := scriptJob(r.script)
		return []payload{{systemd: r.systemd, jobs: []plan.Job{job}}}, err
	}
	if len(r.packages) == 0 {
		r.packages = packages
	}
	loads := make([]payload, len(guests))
	for _, pkg := range r.packages {
		names, err := taggedTests(pkg, r.tags)
		if err != nil {
			return nil, err
		}
		of, err := choose(names, r.run)
		if err != nil {
			return nil, err
		}
		if len(slices.Concat(of...)) == 0 {
			continue
		}
		job, err := r.compile(ctx, pkg)
		if err != nil {
			return nil, err
		}
		for i, names := range of {
			if loads[i].guest = guests[i].name; len(names) > 0 {
				loads[i].jobs = append(loads[i].jobs, r.testJob(job, only(names, r.run)))
			}
		}
	}
	loads = slices.DeleteFunc(loads, func(p payload) bool { return len(p.jobs) == 0 || r.systemd && p.guest != systemdGuest })
	for i := range loads {
		loads[i].systemd = loads[i].guest == systemdGuest
	}
	if len(loads) == 0 {
		return nil, fmt.Errorf("no test of %s matches -run %q", strings.Join(r.packages, " "), r.run)
	}
	return loads, nil
}

// scriptJob runs a script where it lies.
func scriptJob(path string) (plan.Job, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return plan.Job{}, err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return plan.Job{}, err
	}
	args := []string{abs}
	if info.Mode()&0o111 == 0 {
		args = []string{"/bin/sh", abs}
	}
	return plan.Job{Name: filepath.Base(abs), Dir: filepath.Dir(abs), Args: args}, nil
}

// taggedTests are the tests that the tag brings; the others have been run
// where they are faster.
func taggedTests(pkg, tag string) ([]string, error) {
	without, err := testNames(pkg, buildTags)
	if err != nil {
		return nil, err
	}
	with, err := testNames(pkg, buildTags+" "+tag)
	return slices.DeleteFunc(with, func(name string) bool { return slices.Contains(without, name) }), err
}

// testNames reads a package's tests from its source: the binary cannot be
// asked here, where what its TestMain wants is missing.
func testNames(pkg, tags string) ([]string, error) {
	in := build.Default
	in.BuildTags = strings.Fields(tags)
	info, err := in.ImportDir(pkg, 0)
	// A folder may hold nothing without the tag.
	if _, empty := errors.AsType[*build.NoGoError](err); err != nil && !empty {
		return nil, err
	}
	var names []string
	for _, file := range slices.Concat(info.TestGoFiles, info.XTestGoFiles) {
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names, nil
}

// choose splits the tests that -run names by the guest that they are for.
func choose(names []string, run string) (of [][]string, err error) {
	first, _, _ := strings.Cut(run, "/")
	want, err := regexp.Compile(first)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	of = make([][]string, len(guests))
	for _, name := range names {
		if want.MatchString(name) {
			i := guestOf(name)
			of[i] = append(of[i], name)
		}
	}
	return of, nil
}

// guestOf is the last whose prefix fits: all fit the first.
func guestOf(name string) int {
	for i := len(guests) - 1; i > 0; i-- {
		if strings.HasPrefix(name, guests[i].prefix) {
			return i
		}
	}
	return 0
}

// only names the tests one by one, with -run's part for subtests.
func only(names []string, run string) string {
	_, sub, found := strings.Cut(run, "/")
	pattern := "^(" + strings.Join(names, "|") + ")$"
	if found {
		pattern += "/" + sub
	}
	return "-test.run=" + pattern
}

// compile builds a package's test binary; the guest has no time for it.
func (r *ring) compile(ctx context.Context, pkg string) (plan.Job, error) {
	dir, err := filepath.Abs(pkg)
	if err != nil {
		return plan.Job{}, err
	}
	name := strings.Trim(filepath.ToSlash(filepath.Clean(pkg)), "/")
	binary := filepath.Join(r.dir, strings.ReplaceAll(name, "/", "-")+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-tags", buildTags+" "+r.tags, "-o", binary, "./"+name)
	cmd.Stdout, cmd.Stderr = r.stderr, r.stderr
	if err := cmd.Run(); err != nil {
		return plan.Job{}, fmt.Errorf("compile %s: %w", pkg, err)
	}
	return plan.Job{Name: name, Dir: dir, Args: []string{binary}}, nil
}

// testJob lets a test that hangs say where before the guest is killed.
func (r *ring) testJob(job plan.Job, which string) plan.Job {
	args := []string{job.Args[0], "-test.timeout=" + (r.timeout - 45*time.Second).String()}
	if r.verbose {
		args = append(args, "-test.v")
	}
	job.Args = append(args, which)
	return job
}
