package child

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// What is done when, with a grace of 3 s and a margin of 1 s. Moments are seconds after a beginning.
func TestGuard(t *testing.T) {
	begin := time.Now()
	at := func(seconds int) time.Time {
		if seconds < 0 {
			return time.Time{}
		}
		return begin.Add(time.Duration(seconds) * time.Second)
	}
	const never = -1
	type check struct {
		now, until int
		do         action
		again      int
	}
	for _, c := range []struct {
		name   string
		onLost OnLost
		checks []check
	}{
		{"renewed in time", Kill, []check{{0, 10, nothing, 6}, {5, 20, nothing, 16}, {15, 20, nothing, 16}}},
		{"stands still", Kill, []check{{0, 10, nothing, 6}, {6, 10, terminate, 9}, {8, 10, nothing, 9}, {9, 10, kill, never}}},
		{"comes back after SIGTERM", Kill, []check{{6, 10, terminate, 9}, {7, 30, nothing, 9}, {9, 30, kill, never}}},
		{"over after SIGTERM", Kill, []check{{6, 10, terminate, 9}, {7, never, kill, never}, {8, never, nothing, never}}},
		{"over all at once", Kill, []check{{0, 10, nothing, 6}, {1, never, kill, never}}},
		{"checked late", Kill, []check{{0, 10, nothing, 6}, {9, 10, kill, never}}},
		{"checked too late", Kill, []check{{0, 10, nothing, 6}, {50, 10, kill, never}}},
		{"SIGTERM alone", Term, []check{{0, 10, nothing, 6}, {6, 10, terminate, never}, {20, never, nothing, never}}},
		{"SIGTERM alone, too late", Term, []check{{0, 10, nothing, 6}, {20, never, terminate, never}}},
		{"goes on", Continue, []check{
			{0, 10, nothing, 10}, {10, 20, nothing, 20}, {15, never, warn, never}, {16, never, nothing, never},
		}},
		{"goes on, SafeUntil has passed", Continue, []check{{10, 10, warn, never}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := escalation{onLost: c.onLost, grace: 3 * time.Second, margin: time.Second}
			for i, l := range c.checks {
				if do, again := g.next(at(l.now), at(l.until)); do != l.do || !again.Equal(at(l.again)) {
					t.Errorf("check %d at %d s: got %d, again %v; want %d, %v", i, l.now, do, again, l.do, at(l.again))
				}
			}
		})
	}
}

// Whatever the timeout, the default and the longest grace leave the room that the package's doc says.
func TestTimes(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		margin := MarginOf(timeout)
		if total := GraceOf(timeout) + margin; total >= timeout/4 {
			t.Errorf("timeout %v: SIGTERM comes %v before the end, want less than a quarter", timeout, total)
		}
		if total := MaxGrace(timeout) + margin; total > timeout/3 {
			t.Errorf("timeout %v: the longest is %v, want a third at most", timeout, total)
		}
	}
	if got := MaxGrace(time.Millisecond); got != 0 {
		t.Errorf("got %v for a timeout below the margin, want 0", got)
	}
}

func TestOnLost(t *testing.T) {
	for _, want := range []OnLost{Kill, Term, Continue} {
		if got, err := ParseOnLost(want.String()); got != want || err != nil {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	var field *session.FieldError
	if _, err := ParseOnLost("KILL"); !errors.As(err, &field) || field.Field != "on_lost" {
		t.Errorf("got %v, want a refusal of the field", err)
	}
}
