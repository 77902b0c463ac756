package runtime

import (
	"fmt"

	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/quota"
	"github.com/sage-sandbox/sage/quota/xfs"
)

// diskLimits shows the limits of every project that the container writes in,
// with what is in use, as the kernel has them now.
func (a *Attestation) diskLimits(record *state.Record) error {
	if record.Disk == nil {
		return nil
	}
	m, err := xfs.Open(record.Disk.Mount)
	if err != nil {
		return err
	}
	defer m.Close()
	if len(record.Disk.Places) > 0 {
		r, err := m.Find(xfs.Owner{ID: record.ID, Root: record.Disk.Root})
		if err != nil {
			return fmt.Errorf("the container's project: %w", err)
		}
		if err := a.project(m, "disk", r.Project, r.Limit); err != nil {
			return err
		}
	}
	for _, w := range record.Disk.Workspaces {
		if err := a.project(m, "disk of "+w.Place, quota.ProjectID(w.Project), limitOf(w)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Attestation) project(m *xfs.Mount, field string, id quota.ProjectID, want quota.Limit) error {
	u, err := m.Usage(id)
	if err != nil {
		return err
	}
	text := func(l quota.Limit) string { return fmt.Sprintf("%d bytes, %d inodes", l.Bytes, l.Inodes) }
	a.Lines = append(a.Lines, Attested{Line: doctor.Line{
		Difference: doctor.Difference{
			Field: field, Want: text(want), Got: fmt.Sprintf("%s (project %d; in use %d, %d)", text(u.Hard), id, u.Bytes, u.Inodes),
		},
		OK: u.Compare(want) == nil,
	}})
	return nil
}
