package quota

import "fmt"

// BlockSize is the unit in which the kernel states disk quotas, in bytes; it is
// not the block of any file system.
const BlockSize = 512

// BytesPerInode is the least room that an inode must stand for: an XFS inode
// and its directory entry take up disk that no project is charged for, so the
// number of inodes is held to what they would need (S-141).
const BytesPerInode = 4096

// Limit is the most that a project may have. Zero is not "none" but nothing at
// all: [Limit.Check] refuses it, since to the kernel 0 means no limit.
type Limit struct {
	Bytes  uint64 `json:"bytes"`
	Inodes uint64 `json:"inodes"`
}

// NewLimit is the limit for a number of bytes: rounded down to whole blocks of
// the file system, whose size is block bytes (the kernel would round up), with
// as many inodes as may be.
func NewLimit(bytes, block uint64) Limit {
	if block == 0 {
		block = BytesPerInode
	}
	bytes -= bytes % block
	return Limit{Bytes: bytes, Inodes: bytes / BytesPerInode}
}

// Less takes away what is used and not counted for the project. Nothing is left
// of a limit that is below it.
func (l Limit) Less(bytes, inodes uint64) Limit {
	return Limit{Bytes: l.Bytes - min(bytes, l.Bytes), Inodes: l.Inodes - min(inodes, l.Inodes)}
}

// Check refuses what the kernel would take for no limit, or what holds less
// than the first directory of a container.
func (l Limit) Check() error {
	if l.Bytes < BytesPerInode || l.Inodes == 0 {
		return fmt.Errorf("disk: saw %d bytes and %d inodes, want %d bytes and one inode at least", l.Bytes, l.Inodes, BytesPerInode)
	}
	return nil
}

// Usage is what the kernel says of one project.
type Usage struct {
	Hard   Limit  // as it is held to; 0 in either field is no limit
	Soft   Limit  // from where on a time runs, after which it is as a hard one
	Bytes  uint64 // with what is reserved for writes to come
	Inodes uint64 // with files that are unlinked and still open
}

// Empty says that nothing counts for the project any more.
func (u Usage) Empty() bool { return u.Bytes == 0 && u.Inodes == 0 }

// Compare says how the kernel's answer differs from what was set, in words, or
// nil. A soft limit of its own, the file system's default, is no more than a
// stricter one.
func (u Usage) Compare(want Limit) error {
	if u.Hard.Bytes != want.Bytes {
		return fmt.Errorf("hard limit: saw %s, want %d blocks of %d bytes", blocks(u.Hard.Bytes), want.Bytes/BlockSize, BlockSize)
	}
	if u.Hard.Inodes != want.Inodes {
		return fmt.Errorf("hard limit of inodes: saw %d, want %d", u.Hard.Inodes, want.Inodes)
	}
	return nil
}

func blocks(bytes uint64) string {
	if bytes == 0 {
		return "none"
	}
	return fmt.Sprintf("%d blocks", bytes/BlockSize)
}

// Fits refuses a project that has more than it may already: limits stop what
// is to be written and take nothing away (S-024).
func (u Usage) Fits(most Limit) error {
	if u.Bytes > most.Bytes {
		return fmt.Errorf("disk: saw %d bytes in use already, want %d at most", u.Bytes, most.Bytes)
	}
	if u.Inodes > most.Inodes {
		return fmt.Errorf("disk: saw %d inodes in use already, want %d at most", u.Inodes, most.Inodes)
	}
	return nil
}

// Within refuses limits, set by an administrator, that are none or allow more
// than was granted (S-141).
func (u Usage) Within(granted Limit) error {
	if u.Hard.Bytes == 0 || u.Hard.Bytes > granted.Bytes {
		return fmt.Errorf("hard limit: saw %s, want one of at most %d", blocks(u.Hard.Bytes), granted.Bytes/BlockSize)
	}
	if u.Hard.Inodes == 0 || u.Hard.Inodes > granted.Inodes {
		return fmt.Errorf("hard limit of inodes: saw %d (0 is none), want one of at most %d", u.Hard.Inodes, granted.Inodes)
	}
	return u.Fits(granted)
}
