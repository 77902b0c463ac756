// Package egress decides by name where a container may connect to, and by
// address where a name may lead. It is the one language of hosts, the decision
// on one connection, the table of addresses, and the documents and messages by
// which the processes that act on it speak to each other. It resolves no names
// and opens no connections: those are for the packages below it.
package egress
