package clientport

import (
	"slices"
	"testing"
	"time"
)

// Each touch of all sessions tells what was left of the promise before it, 0 when that had run out.
func TestWhatIsLeftOfAPromise(t *testing.T) {
	var left []time.Duration
	c := &connection{server: &sessionServer{cfg: Config{Touched: func(d time.Duration) { left = append(left, d) }}}}
	now := time.Now()
	for _, touch := range []struct{ after, safe time.Duration }{
		{0, 10 * time.Second},
		{3 * time.Second, 9 * time.Second},
		{12 * time.Second, -1}, // nothing is promised
		{time.Second, 5 * time.Second},
		{5 * time.Second, 5 * time.Second},
	} {
		now = now.Add(touch.after)
		c.renewed(now, touch.safe)
	}
	if want := []time.Duration{7 * time.Second, 0, 0}; !slices.Equal(left, want) {
		t.Errorf("left were %v, want %v", left, want)
	}
}
