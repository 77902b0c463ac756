package setup

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// minSize is the least that mkfs.xfs makes a file system of (xfsprogs 5.19).
const minSize = 300 << 20

var units = map[string]uint{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

// ParseSize reads a number of bytes, as "20G": decimal, with K, M, G or T for
// powers of 1024, also spelled GiB.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTiB")
	shift, known := units[strings.TrimSuffix(s[len(digits):], "iB")]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("size: saw %.32q, want a number with K, M, G or T behind it, as 20G", s)
	}
	if n <<= shift; n < minSize {
		return 0, fmt.Errorf("size: saw %d bytes, want at least %d MiB, the smallest XFS", n, minSize>>20)
	}
	return int64(n), nil
}

// sizeText is for people.
func sizeText(bytes int64) string {
	return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) + " GiB"
}
