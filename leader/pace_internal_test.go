package leader

import (
	"testing"
	"time"

	"holdfast/session"
)

// R1: the interval suits a timeout above three intervals. For a shorter timeout it becomes an eighth of that, at least
// a millisecond; it never becomes longer.
func TestR1Pace(t *testing.T) {
	p := newPace(500 * time.Millisecond)
	for _, tt := range []struct {
		timeout, interval time.Duration
		suits, shorter    bool
	}{
		{time.Hour, 500 * time.Millisecond, true, false},
		{1500*time.Millisecond + 1, 500 * time.Millisecond, true, false},
		{1500 * time.Millisecond, 187500 * time.Microsecond, false, true},
		{time.Second, 125 * time.Millisecond, true, true},
		{1500 * time.Millisecond, 125 * time.Millisecond, true, false},
		{time.Millisecond, session.MinInterval, false, true},
		{time.Millisecond, session.MinInterval, false, false},
	} {
		if got := p.suits(tt.timeout); got != tt.suits {
			t.Errorf("an interval of %v suits a timeout of %v: %v, want %v", p.interval(), tt.timeout, got, tt.suits)
		}
		if tt.suits && !tt.shorter {
			continue
		}
		got, shorter := p.quicken(tt.timeout)
		if got != tt.interval || shorter != tt.shorter || p.interval() != tt.interval {
			t.Errorf("quicken(%v) = %v, %v, want %v, %v", tt.timeout, got, shorter, tt.interval, tt.shorter)
		}
	}
}
