package watchdog

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// dogClock is the time of a watchdog that is asked without running.
type dogClock struct {
	*Watchdog
	at time.Time
}

func newDogClock(limit time.Duration) *dogClock {
	c := &dogClock{at: time.Unix(1_800_000_000, 0)}
	c.Watchdog = NewWatchdog(limit, func() time.Time { return c.at })
	c.Start()
	return c
}

// looks passes d with a look every period, and returns all that was found.
func (c *dogClock) looks(d time.Duration) Finding {
	var all Finding
	for end := c.at.Add(d); c.at.Before(end); {
		c.at = c.at.Add(c.Period)
		f := c.Scan()
		all.Began, all.Ended = append(all.Began, f.Began...), append(all.Ended, f.Ended...)
		all.Paused = max(all.Paused, f.Paused)
	}
	return all
}

const dogLimit = 800 * time.Millisecond // a look every 100 ms

func TestAStallBeginsAndEnds(t *testing.T) {
	c := newDogClock(dogLimit)
	c.looks(time.Second)
	write := c.Begin(OnDisk, "writing")
	if f := c.looks(dogLimit); len(f.Began) != 0 || c.Check() != nil {
		t.Errorf("a write of %v is a stall: %+v", dogLimit, f)
	}
	f := c.looks(c.Period)
	if len(f.Began) != 1 || f.Began[0].Lasted != 900*time.Millisecond || f.Began[0].Reason != OnDisk ||
		f.Began[0].Doing != "writing" {
		t.Errorf("found %+v, want one stall of 900ms", f)
	}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "writing has lasted 900ms") {
		t.Errorf("check: %v", err)
	}
	if f = c.looks(time.Second); len(f.Began)+len(f.Ended) != 0 {
		t.Errorf("the same stall is found again: %+v", f)
	}
	c.End(write)
	f = c.looks(c.Period)
	if len(f.Ended) != 1 || f.Ended[0].Lasted != 2*time.Second || c.Check() != nil {
		t.Errorf("at the end found %+v, check: %v", f, c.Check())
	}
	if s := c.Stats(); s.Stalled != [Reasons]uint64{1, 0} || s.Paused != 0 || s.Stalls != [Reasons]bool{} {
		t.Errorf("stats %+v", s)
	}
}

// Each operation is measured by itself, and reasons do not hide each other.
// An entry that is heavy on every node makes no node step out: none could take its place. A node steps out once another
// voter has applied the entry that it has not.
func TestAnEntryThatNobodyHasApplied(t *testing.T) {
	c := newDogClock(dogLimit)
	c.AppliedElsewhere(6)
	apply := c.BeginApply(7)
	if f := c.looks(5 * dogLimit); len(f.Began) != 0 || c.Check() != nil {
		t.Errorf("an entry that no other voter has applied is a stall: %+v", f)
	}
	c.AppliedElsewhere(7)
	if f := c.looks(c.Period); len(f.Began) != 1 || f.Began[0].Reason != OnApply {
		t.Errorf("found %+v, want the entry that another voter has applied", f)
	}
	c.End(apply)
	if f := c.looks(c.Period); len(f.Ended) != 1 || c.Check() != nil {
		t.Errorf("at the end found %+v, check: %v", f, c.Check())
	}
}

func TestStallsSideBySide(t *testing.T) {
	c := newDogClock(dogLimit)
	for range 20 {
		write := c.Begin(OnDisk, "writing")
		if f := c.looks(dogLimit / 2); len(f.Began) != 0 {
			t.Fatalf("short writes one after the other are a stall: %+v", f)
		}
		c.End(write)
	}
	apply := c.BeginApply(7)
	c.AppliedElsewhere(8)
	c.looks(dogLimit / 2)
	first := c.Begin(OnDisk, "writing")
	second := c.Begin(OnDisk, "cutting")
	c.looks(dogLimit / 2)
	if f := c.looks(c.Period); len(f.Began) != 1 || f.Began[0].Reason != OnApply {
		t.Errorf("found %+v, want the entry", f)
	}
	c.End(second)
	if f := c.looks(dogLimit / 2); len(f.Began) != 1 || f.Began[0].Reason != OnDisk {
		t.Errorf("found %+v, want the write", f)
	}
	c.End(apply)
	if f := c.looks(c.Period); len(f.Ended) != 1 || c.Check() == nil {
		t.Errorf("found %+v, check: %v; want that the write still stalls", f, c.Check())
	}
	// One write after the other that stalls is two stalls.
	third := c.Begin(OnDisk, "writing")
	c.looks(2 * dogLimit)
	c.End(first)
	if f := c.looks(c.Period); len(f.Ended) != 1 || len(f.Began) != 1 || c.Check() == nil {
		t.Errorf("found %+v, check: %v; want the end of one and the begin of the next", f, c.Check())
	}
	c.End(third)
	if c.looks(c.Period); c.Check() != nil || c.Stats().Stalled != [Reasons]uint64{2, 1} {
		t.Errorf("check: %v, stats %+v", c.Check(), c.Stats())
	}
}

// A process that did not run has not waited for the disk.
func TestAPausedProcess(t *testing.T) {
	c := newDogClock(dogLimit)
	write := c.Begin(OnDisk, "writing")
	c.looks(dogLimit / 2)
	c.at = c.at.Add(time.Hour)
	f := c.Scan()
	if f.Paused != time.Hour-c.Period || len(f.Began) != 0 {
		t.Errorf("after an hour found %+v, want the pause and no stall", f)
	}
	if got := c.Waits(); got != dogLimit/2+c.Period {
		t.Errorf("the write has lasted %v, want %v", got, dogLimit/2+c.Period)
	}
	if f = c.looks(dogLimit / 2); len(f.Began) != 1 {
		t.Errorf("found %+v, want that the disk's time goes on after the pause", f)
	}
	c.End(write)
	c.looks(c.Period)
	// Looks that are late by less count as time that was not waited, and as nothing else.
	c.at = c.at.Add(c.Period + dogLimit)
	if f = c.Scan(); f.Paused != 0 {
		t.Errorf("late by the limit: found %+v", f)
	}
	if got := c.Stats().Paused; got != 1 {
		t.Errorf("%d pauses, want 1", got)
	}
	if !slices.Equal(c.under, nil) {
		t.Errorf("under way: %v", c.under)
	}
}

// TestADiskThatHangsUnderASlowProcess: a process that always runs late, but never by a pause, has its disk noticed
// after three limits and a period at most, whenever the write begins.
func TestADiskThatHangsUnderASlowProcess(t *testing.T) {
	for late := time.Duration(0); late <= dogLimit; late += dogLimit / 16 {
		for eighth := range 8 {
			c := newDogClock(dogLimit)
			gap := c.Period + late
			for range 100 { // what was late before does not count
				c.at = c.at.Add(gap)
				c.Scan()
			}
			begun := c.at.Add(gap * time.Duration(eighth) / 8)
			next := c.at.Add(gap)
			c.at = begun
			c.Begin(OnDisk, "writing")
			var f Finding
			for len(f.Began) == 0 && next.Sub(begun) < time.Hour {
				c.at = next
				f = c.Scan()
				next = next.Add(gap)
			}
			if got := c.at.Sub(begun); got <= dogLimit || got > 3*dogLimit+c.Period {
				t.Errorf("looks that are late by %v notice it after %v, want at most %v", late, got,
					3*dogLimit+c.Period)
			}
			if got := c.Stats().Paused; got != 0 {
				t.Errorf("late by %v: %d pauses", late, got)
			}
		}
	}
}

// A process that is slow for one limit while it writes, and whose write ends then, does not stall.
func TestASlowProcessDoesNotStall(t *testing.T) {
	c := newDogClock(dogLimit)
	c.Begin(OnDisk, "writing")
	for range 4 {
		c.at = c.at.Add(c.Period + dogLimit/4)
		if f := c.Scan(); len(f.Began) != 0 {
			t.Errorf("found %+v", f)
		}
	}
	if got, want := c.Waits(), 4*c.Period; got != want {
		t.Errorf("the write has lasted %v, want %v", got, want)
	}
}

// What begins after a pause, before the look that finds it, has not waited for the pause, and is no less noticed.
func TestAWriteThatBeginsAfterAPause(t *testing.T) {
	c := newDogClock(dogLimit)
	c.looks(c.Period)
	c.at = c.at.Add(time.Hour)
	c.Begin(OnDisk, "writing")
	if got := c.Waits(); got != 0 {
		t.Errorf("the write has lasted %v, want nothing", got)
	}
	if f := c.Scan(); f.Paused == 0 || len(f.Began) != 0 {
		t.Errorf("found %+v, want the pause alone", f)
	}
	if f := c.looks(dogLimit); len(f.Began) != 0 {
		t.Errorf("after the limit found %+v", f)
	}
	if f := c.looks(c.Period); len(f.Began) != 1 {
		t.Errorf("past the limit found %+v, want a stall", f)
	}
}
