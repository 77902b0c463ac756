// Package guard is the wall between the sockets of a container and every network
// but what leads to its proxy.
//
// An engine may move an interface into a container's network namespace after
// create, or give one that others are in, so nothing is built on the namespace
// being empty. Programs for the kernel (BPF) on the container's cgroup decide
// instead: two about every packet, which are the wall, and some about system
// calls, so that a program is told at once where a packet would be dropped in
// silence. They are attached for as long as the cgroup is there, whatever
// becomes of the process that did it.
//
// A socket belongs to the cgroup of the process that made it, for good. What
// came into the container from outside is not held here (see the README).
package guard
