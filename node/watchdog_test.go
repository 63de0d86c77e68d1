package node

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// dogClock is the time of a watchdog that is asked without running.
type dogClock struct {
	*watchdog
	at time.Time
}

func newDogClock(limit time.Duration) *dogClock {
	c := &dogClock{at: time.Unix(1_800_000_000, 0)}
	c.watchdog = newWatchdog(limit, func() time.Time { return c.at })
	c.start()
	return c
}

// looks passes d with a look every period, and returns all that was found.
func (c *dogClock) looks(d time.Duration) finding {
	var all finding
	for end := c.at.Add(d); c.at.Before(end); {
		c.at = c.at.Add(c.period)
		f := c.look()
		all.began, all.ended = append(all.began, f.began...), append(all.ended, f.ended...)
		all.paused = max(all.paused, f.paused)
	}
	return all
}

const dogLimit = 800 * time.Millisecond // a look every 100 ms

func TestAStallBeginsAndEnds(t *testing.T) {
	c := newDogClock(dogLimit)
	c.looks(time.Second)
	write := c.begin(onDisk, "writing")
	if f := c.looks(dogLimit); len(f.began) != 0 || c.check() != nil {
		t.Errorf("a write of %v is a stall: %+v", dogLimit, f)
	}
	f := c.looks(c.period)
	if len(f.began) != 1 || f.began[0].lasted != 900*time.Millisecond || f.began[0].reason != onDisk || f.began[0].doing != "writing" {
		t.Errorf("found %+v, want one stall of 900ms", f)
	}
	if err := c.check(); err == nil || !strings.Contains(err.Error(), "writing has lasted 900ms") {
		t.Errorf("check: %v", err)
	}
	if f = c.looks(time.Second); len(f.began)+len(f.ended) != 0 {
		t.Errorf("the same stall is found again: %+v", f)
	}
	c.end(write)
	f = c.looks(c.period)
	if len(f.ended) != 1 || f.ended[0].lasted != 2*time.Second || c.check() != nil {
		t.Errorf("at the end found %+v, check: %v", f, c.check())
	}
	if s := c.stats(); s.stalled != [reasons]uint64{1, 0} || s.paused != 0 || s.stalls != [reasons]bool{} {
		t.Errorf("stats %+v", s)
	}
}

// Each operation is measured by itself, and reasons do not hide each other.
func TestStallsSideBySide(t *testing.T) {
	c := newDogClock(dogLimit)
	for range 20 {
		write := c.begin(onDisk, "writing")
		if f := c.looks(dogLimit / 2); len(f.began) != 0 {
			t.Fatalf("short writes one after the other are a stall: %+v", f)
		}
		c.end(write)
	}
	apply := c.begin(onApply, "applying")
	c.looks(dogLimit / 2)
	first := c.begin(onDisk, "writing")
	second := c.begin(onDisk, "cutting")
	c.looks(dogLimit / 2)
	if f := c.looks(c.period); len(f.began) != 1 || f.began[0].reason != onApply {
		t.Errorf("found %+v, want the entry", f)
	}
	c.end(second)
	if f := c.looks(dogLimit / 2); len(f.began) != 1 || f.began[0].reason != onDisk {
		t.Errorf("found %+v, want the write", f)
	}
	c.end(apply)
	if f := c.looks(c.period); len(f.ended) != 1 || c.check() == nil {
		t.Errorf("found %+v, check: %v; want that the write still stalls", f, c.check())
	}
	// One write after the other that stalls is two stalls.
	third := c.begin(onDisk, "writing")
	c.looks(2 * dogLimit)
	c.end(first)
	if f := c.looks(c.period); len(f.ended) != 1 || len(f.began) != 1 || c.check() == nil {
		t.Errorf("found %+v, check: %v; want the end of one and the begin of the next", f, c.check())
	}
	c.end(third)
	if c.looks(c.period); c.check() != nil || c.stats().stalled != [reasons]uint64{2, 1} {
		t.Errorf("check: %v, stats %+v", c.check(), c.stats())
	}
}

// A process that did not run has not waited for the disk.
func TestAPausedProcess(t *testing.T) {
	c := newDogClock(dogLimit)
	write := c.begin(onDisk, "writing")
	c.looks(dogLimit / 2)
	c.at = c.at.Add(time.Hour)
	f := c.look()
	if f.paused != time.Hour-c.period || len(f.began) != 0 {
		t.Errorf("after an hour found %+v, want the pause and no stall", f)
	}
	if got := c.waits(); got != dogLimit/2+c.period {
		t.Errorf("the write has lasted %v, want %v", got, dogLimit/2+c.period)
	}
	if f = c.looks(dogLimit / 2); len(f.began) != 1 {
		t.Errorf("found %+v, want that the disk's time goes on after the pause", f)
	}
	c.end(write)
	c.looks(c.period)
	// Looks that are late by less count as time that was not waited, and as nothing else.
	c.at = c.at.Add(c.period + dogLimit)
	if f = c.look(); f.paused != 0 {
		t.Errorf("late by the limit: found %+v", f)
	}
	if got := c.stats().paused; got != 1 {
		t.Errorf("%d pauses, want 1", got)
	}
	if !slices.Equal(c.under, nil) {
		t.Errorf("under way: %v", c.under)
	}
}

// TestADiskThatHangsUnderASlowProcess: a process that always runs late, but never by a pause, has its disk noticed after three
// limits and a period at most, whenever the write begins.
func TestADiskThatHangsUnderASlowProcess(t *testing.T) {
	for late := time.Duration(0); late <= dogLimit; late += dogLimit / 16 {
		for eighth := range 8 {
			c := newDogClock(dogLimit)
			gap := c.period + late
			for range 100 { // what was late before does not count
				c.at = c.at.Add(gap)
				c.look()
			}
			begun := c.at.Add(gap * time.Duration(eighth) / 8)
			next := c.at.Add(gap)
			c.at = begun
			c.begin(onDisk, "writing")
			var f finding
			for len(f.began) == 0 && next.Sub(begun) < time.Hour {
				c.at = next
				f = c.look()
				next = next.Add(gap)
			}
			if got := c.at.Sub(begun); got <= dogLimit || got > 3*dogLimit+c.period {
				t.Errorf("looks that are late by %v notice it after %v, want at most %v", late, got, 3*dogLimit+c.period)
			}
			if got := c.stats().paused; got != 0 {
				t.Errorf("late by %v: %d pauses", late, got)
			}
		}
	}
}

// A process that is slow for one limit while it writes, and whose write ends then, does not stall.
func TestASlowProcessDoesNotStall(t *testing.T) {
	c := newDogClock(dogLimit)
	c.begin(onDisk, "writing")
	for range 4 {
		c.at = c.at.Add(c.period + dogLimit/4)
		if f := c.look(); len(f.began) != 0 {
			t.Errorf("found %+v", f)
		}
	}
	if got, want := c.waits(), 4*c.period; got != want {
		t.Errorf("the write has lasted %v, want %v", got, want)
	}
}

// What begins after a pause, before the look that finds it, has not waited for the pause, and is no less noticed.
func TestAWriteThatBeginsAfterAPause(t *testing.T) {
	c := newDogClock(dogLimit)
	c.looks(c.period)
	c.at = c.at.Add(time.Hour)
	c.begin(onDisk, "writing")
	if got := c.waits(); got != 0 {
		t.Errorf("the write has lasted %v, want nothing", got)
	}
	if f := c.look(); f.paused == 0 || len(f.began) != 0 {
		t.Errorf("found %+v, want the pause alone", f)
	}
	if f := c.looks(dogLimit); len(f.began) != 0 {
		t.Errorf("after the limit found %+v", f)
	}
	if f := c.looks(c.period); len(f.began) != 1 {
		t.Errorf("past the limit found %+v, want a stall", f)
	}
}
