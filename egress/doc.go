// Package egress decides by name where a container may connect to. For now it
// holds the language of host patterns. It resolves no names and opens no
// connections: those are for the packages below it.
package egress
