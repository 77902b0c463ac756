package main

import (
	"context"
	"io"
	"os"
	"time"
)

// reportedGrace is how long bats may take to end after its last test. It waits
// for whoever holds its output, and a test that failed half-way may have left a
// program that waits for a terminal which no container will send.
const reportedGrace = 10 * time.Second

// endReported cancels a run of bats that has reported all its tests and does not
// end. The result stops the watching, and waits for that.
func endReported(ctx context.Context, cancel context.CancelFunc, log string, begun int64) func() {
	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if awaitReport(ctx, log, begun) && pause(ctx, reportedGrace) {
			cancel()
		}
	}()
	return func() {
		stop()
		<-stopped
	}
}

// awaitReport returns true as soon as all tests are reported.
func awaitReport(ctx context.Context, log string, begun int64) bool {
	for pause(ctx, time.Second) {
		if allReported(log, begun) {
			return true
		}
	}
	return false
}

func allReported(log string, begun int64) bool {
	f, err := os.Open(log)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := f.Seek(begun, io.SeekStart); err != nil {
		return false
	}
	r, err := parseTAP(f)
	return err == nil && len(r.results) > 0 && len(r.unfinished) == 0
}

// pause returns false if the context ends before the time is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
