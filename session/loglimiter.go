package session

import (
	"sync"
	"time"
)

// LogLinesPerSecond is the default number of lines of one kind that [LogLimiter] allows in a log in a second.
const LogLinesPerSecond = 10

// LogLimiter limits the lines of one kind in a log: thousands of sessions may end in one moment, and whoever reaches a
// port can ask for any number of things. The zero value allows [LogLinesPerSecond] at once, and as many in each second.
// Safe for concurrent use.
type LogLimiter struct {
	// Burst is the number of lines that may be written at once, and Every the time after which one more is allowed.
	Burst int
	Every time.Duration

	mu sync.Mutex
	// due is when the next line would be due if all had come at the rate of one in Every. guarded by mu
	due time.Time
	// omitted counts the omitted lines, unreported those since the last line. guarded by mu
	omitted    uint64
	unreported int
}

// Allow reports whether a line may be written at now, and the number of lines omitted since the last one.
func (l *LogLimiter) Allow(now time.Time) (leftOut int, ok bool) {
	burst, every := l.Burst, l.Every
	if burst == 0 {
		burst, every = LogLinesPerSecond, time.Second/LogLinesPerSecond
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

// Omitted returns the number of omitted lines.
func (l *LogLimiter) Omitted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.omitted
}
