package session_test

import (
	"testing"
	"time"

	"holdfast/session"
)

// So many lines are written at once, and one more after each interval, up to as many at once again. The next line has
// the number of omitted lines, which are also counted.
func TestLines(t *testing.T) {
	for name, l := range map[string]struct {
		lines *session.LogLimiter
		burst int
		every time.Duration
	}{
		"by default": {&session.LogLimiter{}, session.LogLinesPerSecond, time.Second / session.LogLinesPerSecond},
		"as told":    {&session.LogLimiter{Burst: 1000, Every: time.Second}, 1000, time.Second},
	} {
		now := time.Unix(1e9, 0)
		take := func(calls, want, wantLeftOut int) {
			t.Helper()
			written, leftOut := 0, 0
			for range calls {
				if n, ok := l.lines.Allow(now); ok {
					written++
					leftOut += n
				}
			}
			if written != want || leftOut != wantLeftOut {
				t.Errorf("%s: %d lines of %d were written, which tell of %d left out; want %d and %d",
					name, written, calls, leftOut, want, wantLeftOut)
			}
		}
		take(l.burst+7, l.burst, 0)
		now = now.Add(l.every - 1)
		take(1, 0, 0)
		now = now.Add(1)
		take(3, 1, 8)
		now = now.Add(3 * l.every)
		take(5, 3, 2)
		now = now.Add(time.Hour)
		take(l.burst+1, l.burst, 2)
		if n := l.lines.Omitted(); n != 7+1+2+2+1 {
			t.Errorf("%s: %d lines are counted as left out, want 13", name, n)
		}
	}
}
