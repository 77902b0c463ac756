// Package runtime carries out the life of a container: create, start, exec,
// signal, update, delete. It is the only package that drives libcontainer; it
// decides nothing that spec can decide, and prints nothing to people.
package runtime
