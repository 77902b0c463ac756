package expect

import (
	"runtime"
	"slices"
	"strings"
)

// Row is one attempt with its results: the name of an errno, of a signal, or
// "ok". Where a result depends on how the kernel was built, it is several with
// "|" between. The columns after Unconfined are of sage's profiles, without hard
// limits and with the network mode "none", in namespaces of the container's own.
type Row struct {
	Attempt    string
	Unconfined string // runc, with every capability and no filter
	Sage       string
	Agent      string
	Service    string
}

// Profile names a column.
type Profile string

// The columns of a Row.
const (
	Unconfined Profile = "unconfined"
	Sage       Profile = "sage"
	Agent      Profile = "agent"
	Service    Profile = "service"
)

// Rows is the table for this machine.
func Rows() []Row {
	rows := slices.Concat(calls, allowed, sockets, files)
	if runtime.GOARCH == "amd64" {
		rows = append(rows, x86...)
	}
	return rows
}

// Want is the row's result under a profile.
func (r Row) Want(p Profile) string {
	switch p {
	case Unconfined:
		return r.Unconfined
	case Sage:
		return r.Sage
	case Agent:
		return r.Agent
	case Service:
		return r.Service
	}
	return "no profile"
}

// matches takes any of the alternatives.
func matches(got, want string) bool {
	return slices.Contains(strings.Split(want, "|"), got)
}
