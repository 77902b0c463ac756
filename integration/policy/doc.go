// Package policy is the ring of tests that attack containers under sage's own
// profiles, from inside and by what a bundle asks for, on the native kernel
// and with no engine above. What a container under runc's rules must be is not
// looked at here.
package policy
