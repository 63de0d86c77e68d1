package session

import (
	"sync"
	"time"
)

// LinesPerSecond is how many lines of one kind [Lines] lets into a log in a second.
const LinesPerSecond = 10

// Lines bounds the lines of one kind in a log: thousands of sessions may end in one moment. The zero value is ready.
// Safe for concurrent use.
type Lines struct {
	mu    sync.Mutex
	since time.Time // guarded by mu; when the present second began
	lines int       // guarded by mu; of the present second
	out   int       // guarded by mu; left out since the last line
}

// Take reports whether a line may be written at now, and how many were left out since the last one.
func (l *Lines) Take(now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.since) >= time.Second {
		l.since, l.lines = now, 0
	}
	if l.lines == LinesPerSecond {
		l.out++
		return 0, false
	}
	l.lines++
	leftOut, l.out = l.out, 0
	return leftOut, true
}
