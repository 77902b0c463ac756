package proxy

import (
	"sync"
	"time"
)

const (
	// quotaBurst lines can be written at once, and quotaEvery one more.
	quotaBurst = 50
	quotaEvery = 200 * time.Millisecond
	// quotaRemembered names are not written again within quotaForget: a client
	// asks for every name two to eight times (families, search domains, retries).
	quotaRemembered = 256
	quotaForget     = time.Minute
)

// quota decides which refusals of the stub resolver are written: a program that
// does nothing but ask must not fill the host's disk, nor push out of it what
// was written of its connections.
type quota struct {
	mu      sync.Mutex
	used    float64
	at      time.Time
	skipped int
	seen    map[string]bool
	since   time.Time // of seen
}

// take says whether to write, and how many were not since the last that was.
// Repetitions do not count among these.
func (q *quota) take(key string, now time.Time) (skipped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.since) > quotaForget || len(q.seen) >= quotaRemembered {
		q.seen, q.since = map[string]bool{}, now
	}
	if q.seen[key] {
		return 0, false
	}
	q.used = max(0, q.used-float64(now.Sub(q.at))/float64(quotaEvery))
	q.at = now
	if q.used > quotaBurst-1 {
		q.skipped++
		return 0, false
	}
	q.used++
	q.seen[key] = true
	skipped, q.skipped = q.skipped, 0
	return skipped, true
}
