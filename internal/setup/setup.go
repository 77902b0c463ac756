// Package setup prepares a host for hard limits, and takes back what it has
// prepared: the mount with project quotas, the cgroup root, the audit directory
// and the host's configuration. It decides nothing about containers, and makes
// nothing that is not written down first, so that it can be killed at any
// moment.
package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Where things are unless the options or the host's configuration say otherwise.
const (
	DefaultMount     = "/srv/sage-xfs"
	DefaultCgroup    = "/sys/fs/cgroup/sage"
	DefaultAudit     = "/var/log/sage"
	DefaultRecord    = "/var/lib/sage-setup.json"
	DefaultImageSize = 20 << 30 // bytes
	defaultFstab     = "/etc/fstab"
)

// Options is what is to be prepared. Paths are absolute.
type Options struct {
	Image  string // file that is to hold the quota file system; "" for none
	Size   int64  // of a new image, bytes
	Sparse bool   // leave the image's space to be found when it is needed
	Mount  string // where the quota file system is, or is to be
	// Persist has the image mounted at each boot, by a line in fstab(5).
	Persist bool
	Cgroup  string
	Audit   string
	Config  string // file of the host's configuration, written if there is none
	Record  string // file in which setup remembers what it made
	DryRun  bool   // say what would be done

	fstab string             // of a test, else /etc/fstab
	crash func(point string) // of a test: called wherever a kill could hit
}

// Line is what became of one part.
type Line struct {
	Part string // "image", "mount", "fstab", "cgroup", "audit", "config", "directory"
	Did  Did
	What string
}

// Did is the outcome for one part.
type Did string

// The outcomes. Todo is for the administrator, who was not asked for it.
const (
	Made     Did = "made"
	Already  Did = "already"
	WouldDo  Did = "would make"
	Undone   Did = "undone"
	WouldUn  Did = "would undo"
	Kept     Did = "kept"
	Todo     Did = "to do"
	Finished Did = "cleaned up" // what a killed setup had begun
)

// job is one run of setup.
type job struct {
	Options
	say    func(Line)
	rec    *record
	unlock func()
}

// Run prepares the host, and says so part by part. What is there already stays
// as it is. On an error what this run made is undone; the code is
// [errcode.ResourceLimitsUnsupported] where the host cannot have hard limits,
// [errcode.ConfigInvalid] for its configuration, [errcode.SetupFailed] else.
//
// ready is false where the administrator has a line to add to the configuration.
func Run(ctx context.Context, o Options, say func(Line)) (ready bool, err error) {
	err = withJob(o, say, func(j *job) error {
		ready, err = j.prepare(ctx)
		return err
	})
	return ready, err
}

func withJob(o Options, say func(Line), do func(*job) error) error {
	j, err := begin(o, say)
	if err == nil {
		defer j.unlock()
		err = do(j)
	}
	return errcode.Wrap(errcode.SetupFailed, "setup", err)
}

func begin(o Options, say func(Line)) (*job, error) {
	if o.Record == "" {
		o.Record = DefaultRecord
	}
	if o.fstab == "" {
		o.fstab = defaultFstab
	}
	if o.crash == nil {
		o.crash = func(string) {}
	}
	if err := asRoot(); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Dir(o.Record))
	if err != nil {
		return nil, err
	}
	rec, err := loadRecord(o.Record)
	if err != nil {
		unlock()
		return nil, err
	}
	rec.dry, rec.crash = o.DryRun, o.crash
	return &job{Options: o, say: say, rec: rec, unlock: unlock}, nil
}

func (j *job) prepare(ctx context.Context) (ready bool, err error) {
	if err := j.cleanUp(); err != nil {
		return false, err
	}
	host, err := readConfig(j.Config)
	if err != nil {
		return false, err
	}
	if err := j.settle(host); err != nil {
		return false, err
	}
	if err := j.preflight(); err != nil {
		return false, err
	}
	ready, err = j.makeAll(ctx, host)
	if err != nil {
		err = errors.Join(err, j.takeBack(func(it item) bool { return it.fresh }))
	}
	return ready && err == nil, err
}

// settle fills in what was left open: from the configuration that there is, so
// that "setup" alone prepares what that names, or by default.
func (j *job) settle(host *spec.Host) error {
	if host != nil {
		j.Mount = or(j.Mount, host.QuotaMount)
		j.Cgroup = or(j.Cgroup, host.CgroupRoot)
		j.Audit = or(j.Audit, host.AuditDir)
	}
	if j.Image != "" {
		j.Mount = or(j.Mount, DefaultMount)
	}
	j.Cgroup, j.Audit = or(j.Cgroup, DefaultCgroup), or(j.Audit, DefaultAudit)
	switch {
	case j.Mount == "":
		return errors.New("saw neither a file for the quota file system nor a mount, want --quota-image FILE to make one, or --quota-mount DIR for one that there is")
	case j.Persist && j.Image == "":
		return errors.New("saw --persist without --quota-image, want both: a mount that is there has its line in fstab already")
	}
	return nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// makeAll goes from what others rest on to what names them: a configuration
// that is there says that the rest is.
func (j *job) makeAll(ctx context.Context, host *spec.Host) (ready bool, err error) {
	parts := []func() error{
		func() error { return j.image(ctx) }, j.mount, j.persist, j.cgroup, j.audit,
		func() error { ready, err = j.config(host); return err },
	}
	for _, part := range parts {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := part(); err != nil {
			return false, err
		}
	}
	return ready, nil
}

// audit makes the directory that the configuration names for audit files.
func (j *job) audit() error {
	return j.directory("audit", j.Audit, 0o750)
}

// make writes it down, makes it, and writes down that it is made; in this
// order, so that whatever there is of it can be found after a kill.
func (j *job) make(part string, it item, what string, do func(*item) error) error {
	if j.DryRun {
		j.say(Line{part, WouldDo, what})
		return nil
	}
	at := part + " " + it.Path
	if err := j.rec.begin(it); err != nil {
		return err
	}
	j.crash("begun " + at)
	if err := do(j.rec.last()); err != nil {
		// It may be half there: takeBack knows how to undo that.
		return fmt.Errorf("%s: %w", part, err)
	}
	j.crash("made " + at)
	j.rec.last().Done = true
	if err := j.rec.save(); err != nil {
		return err
	}
	j.crash("done " + at)
	j.say(Line{part, Made, what})
	return nil
}

func (j *job) already(part, what string) error {
	j.say(Line{part, Already, what})
	return nil
}
