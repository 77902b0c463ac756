// Package quota holds the values of a disk limit and the choices that need no
// disk: what a limit means in blocks, which project may be taken, what a kernel's
// answer has to be. It is not what acts on a file system; that is quota/xfs.
package quota
