// Package caller is what a program in a container does to reach the network: as
// it should, by the proxy that it is told of, and in every other way. It knows
// nothing of what should come of it. A test binary becomes that program by
// calling Main first of all, so that no other has to be built.
package caller
