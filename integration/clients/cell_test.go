//go:build kernel

package clients

const (
	proxied     = "proxy"
	transparent = "transparent"
)

// cell is one of the four things that each program does.
type cell struct {
	column   string
	variable bool // as sage sets them, or none
	denied   bool
}

var columns = []cell{
	{"proxy", true, false},
	{"transparent", false, false},
	{"denied", true, true},
	{"denied, transparent", false, true},
}

// way is by which of the two a program goes.
func (p program) way(c cell) string {
	if c.variable && p.proxied {
		return proxied
	}
	return transparent
}

func (p program) says(c cell) string {
	if c.variable {
		return p.denied
	}
	return p.unresolved
}
