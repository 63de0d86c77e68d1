package session_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// The log clock stands in a freeze, which ends at its bound, and the running clock never does.
func TestLogTime(t *testing.T) {
	begun := session.LogTime{Log: 10 * time.Second}
	begun.Freeze = &session.Freeze{Until: 40 * time.Second}
	for _, c := range []struct{ running, log, held time.Duration }{
		{5 * time.Second, 10 * time.Second, 0}, // a clock never goes back
		{10 * time.Second, 10 * time.Second, 0},
		{39_999 * time.Millisecond, 10 * time.Second, 29_999 * time.Millisecond},
		{40 * time.Second, 10 * time.Second, 30 * time.Second},
		{45 * time.Second, 15 * time.Second, 30 * time.Second},
	} {
		now := begun.At(c.running)
		if now.Log != c.log || now.Held != c.held {
			t.Errorf("at %v: L is %v and stood for %v, want %v and %v", c.running, now.Log, now.Held, c.log, c.held)
		}
		if frozen := now.Freeze != nil; frozen != (c.running < 40*time.Second) {
			t.Errorf("at %v: frozen is %v", c.running, frozen)
		}
	}
}

// However many looks there are at the clock, they come to the same time.
func TestLogTimeInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Map(rapid.IntRange(0, 100), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
		begun := session.LogTime{Log: ms.Draw(t, "log"), Held: ms.Draw(t, "held")}
		if span := ms.Draw(t, "for"); span > 0 {
			begun.Freeze = &session.Freeze{Until: begun.Running() + span}
		}
		now := begun
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			to := now.Running() + ms.Draw(t, "step")
			if now = now.At(to); now.Running() != to {
				t.Fatalf("the running clock reads %v, want %v", now.Running(), to)
			}
		}
		if at := begun.At(now.Running()); at != now {
			t.Fatalf("in steps %+v, at once %+v", now, at)
		}
	})
}

// A process learns of a freeze, counts its bound on its own clock, and gives each session a full timeout from its end.
func TestFrost(t *testing.T) {
	const second = time.Second
	var f session.FreezeTracker
	if f.Update(session.LogTime{}, 0, second) || f.FullTimeoutFrom(second) != 0 || f.Left(second) != 0 {
		t.Error("something is frozen before any freeze")
	}
	frozen := session.LogTime{Log: 100 * second, Freeze: &session.Freeze{Until: 130 * second}}
	if !f.Update(frozen, 100*second, 7*second) {
		t.Error("the freeze is no change")
	}
	if f.Update(frozen, 105*second, 12*second) {
		t.Error("the same freeze is a change")
	}
	if got := f.Left(17 * second); got != 20*second {
		t.Errorf("%v left 10 s after the begin of 30 s, want 20 s", got)
	}
	if got := f.FullTimeoutFrom(17 * second); got != 17*second {
		t.Errorf("in the freeze sessions count from %v, want from now, 17 s", got)
	}
	if got := f.FullTimeoutFrom(60 * second); got != 37*second {
		t.Errorf("after the bound sessions count from %v, want from the bound, 37 s", got)
	}
	thawed := f
	if !thawed.Update(session.LogTime{Log: 100 * second}, 110*second, 20*second) || thawed.FullTimeoutFrom(60*second) != 20*second {
		t.Errorf("after a thaw at 20 s sessions count from %v", thawed.FullTimeoutFrom(60*second))
	}
	if !f.Update(session.LogTime{Log: 103 * second}, 133*second, 40*second) || f.FullTimeoutFrom(60*second) != 37*second {
		t.Errorf("the freeze ended by itself at 37 s, and sessions count from %v", f.FullTimeoutFrom(60*second))
	}
}

func TestCheckSpan(t *testing.T) {
	for d, ok := range map[time.Duration]bool{
		-time.Millisecond: false, 0: true, time.Millisecond: true, time.Microsecond: false, session.MaxFreeze: true,
		session.MaxFreeze + time.Millisecond: false,
	} {
		err := session.CheckSpan(d)
		if (err == nil) != ok || err != nil && !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%v: %v", d, err)
		}
	}
}
