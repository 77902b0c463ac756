// Package clients is the ring that shows that the programs by which people fetch
// things work through a container's way out: Debian's git, pip, npm, apt, Go,
// cargo, Maven, curl, wget, Node, Java, psql and ssh, against servers of the
// test's own.
package clients
