package main

import (
	"bytes"
	"io"
	"sync"
)

// lines passes on whole lines, each with what tells it from those of the guests
// beside.
type lines struct {
	to     io.Writer
	mu     *sync.Mutex
	prefix string
	rest   []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var out []byte
	for line := range bytes.Lines(l.rest[:end]) {
		out = append(append(out, l.prefix...), line...)
	}
	l.rest = append(l.rest[:0], l.rest[end:]...)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.to.Write(out)
	return len(p), err
}
