// Package archtest holds no code, and no test of behaviour: its tests pin the
// shape of the module, which is who may import whom, how large a file or a
// function may grow, what may be called what, and what may lie in the tree.
package archtest
