package session

import (
	"sync"
	"time"
)

// LinesPerSecond is how many lines of one kind [Lines] lets into a log in a second, unless it is told otherwise.
const LinesPerSecond = 10

// Lines bounds the lines of one kind in a log: thousands of sessions may end in one moment, and whoever reaches a port can
// ask for any number of things. The zero value lets [LinesPerSecond] at once, and as many in each second. Safe for
// concurrent use.
type Lines struct {
	// Burst is how many lines may be written at once, and Every the time after which there may be one more.
	Burst int
	Every time.Duration

	mu sync.Mutex
	// due is when the next line would be due if all had come at the rate of one in Every. guarded by mu
	due time.Time
	// omitted counts the lines that were left out, unreported those of them since the last line. guarded by mu
	omitted    uint64
	unreported int
}

// Take reports whether a line may be written at now, and how many were left out since the last one.
func (l *Lines) Take(now time.Time) (leftOut int, ok bool) {
	burst, every := l.Burst, l.Every
	if burst == 0 {
		burst, every = LinesPerSecond, time.Second/LinesPerSecond
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due.Before(now) {
		l.due = now
	}
	if l.due.Sub(now) > time.Duration(burst-1)*every {
		l.omitted++
		l.unreported++
		return 0, false
	}
	l.due = l.due.Add(every)
	leftOut, l.unreported = l.unreported, 0
	return leftOut, true
}

// Omitted returns how many lines were left out.
func (l *Lines) Omitted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.omitted
}
