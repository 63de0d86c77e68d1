package learner

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// E1, R1: a stall counts when it is longer than the leader's interval or the node's own, whichever is shorter. Local
// sessions rest on the node's own (L3 local expiry). The node looks often enough that nothing else counts as a stall.
func TestE1StallsByTheShorterInterval(t *testing.T) {
	for told, stall := range map[time.Duration]time.Duration{interval / 5: interval / 4, 10 * interval: interval + 1} {
		t.Run(told.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.follow()
				l.beat(session.Heartbeat{Good: 1, Interval: told})
				begin := time.Now()
				time.Sleep(10*interval + 1)
				if got := l.beat(session.Heartbeat{Good: 2, Interval: told}); got.StallAge != time.Since(begin) ||
					got.Credit != 0 {
					t.Errorf("without a stall the node vouches for %v and is credited with %v, want %v and 0",
						got.StallAge,
						got.Credit, time.Since(begin))
				}
				w.stall(stall)
				got := l.beat(session.Heartbeat{Good: 3, Interval: told})
				if want := stall + session.GraceIntervals*min(told, interval); got.StallAge != 0 || got.Credit != want {
					t.Errorf("after a stall of %v the node vouches for %v and is credited with %v, want 0 and %v",
						stall,
						got.StallAge, got.Credit, want)
				}
			})
		})
	}
}

// S5: suspensions that are too short to be noticed alone add up, also after the wall clock was set back.
func TestS5ShortSuspensionsAddUp(t *testing.T) {
	wall := time.Unix(1000, 0)
	found := 0
	p := newStallDetector(interval, instant{wall: wall}, func() { found++ })
	mono, ahead := time.Duration(0), time.Duration(0)
	look := func(suspended time.Duration) bool {
		mono += interval / 4
		ahead += suspended
		return p.observe(instant{mono, wall.Add(mono + ahead)})
	}
	for n := range 60 {
		if got, want := look(900*time.Millisecond), n%2 == 1; got != want {
			t.Fatalf("suspension %d of 0.9 s: noticed %v, want %v", n+1, got, want)
		}
		if got := p.suspendedSince(mono); got != (n%2 == 1) {
			t.Fatalf("suspension %d: suspended since now is %v", n+1, got)
		}
	}
	look(-time.Hour)
	if look(900*time.Millisecond) || !look(900*time.Millisecond) {
		t.Error("after the clock was set back: want the second suspension of 0.9 s noticed, but not the first")
	}
	if found != 31 {
		t.Errorf("promises were dropped %d times, want 31", found)
	}
}

func TestE1VouchesSinceTheLastStall(t *testing.T) {
	wall := time.Unix(0, 0)
	p := newStallDetector(interval, instant{wall: wall}, func() { t.Error("found a suspension") })
	at := func(mono, ahead time.Duration) instant { return instant{mono, wall.Add(mono + ahead)} }
	if p.observe(at(interval, 0)); gapAge(p, interval) != interval {
		t.Error("a gap of one interval counts as a stall")
	}
	p.observe(at(2*interval+1, 0))
	if got := gapAge(p, 2*interval+1); got != 0 {
		t.Errorf("after a gap of an interval and 1 ns the node vouches for %v, want 0", got)
	}
	if got := gapAge(p, 3*interval); got != interval-1 {
		t.Errorf("later it vouches for %v, want %v", got, interval-1)
	}
}

func gapAge(p *stallDetector, now time.Duration) time.Duration {
	age, _, _ := p.ages(now)
	return age
}

// E1: the credit of a stall is its length and the grace. The credit of a suspension adds the time that the monotonic
// clock did not show. No moment is credited twice. Stalls do not change the age of the process.
func TestE1CreditsStalls(t *testing.T) {
	const begun, second, grace = time.Minute, time.Second, session.GraceIntervals * interval
	for _, tt := range []struct {
		name  string
		looks []time.Duration
		ahead time.Duration // of the wall clock, at the last look
		want  time.Duration
	}{
		{"none", []time.Duration{interval, 2 * interval}, 0, 0},
		{"one", []time.Duration{interval, interval + second}, 0, second + grace},
		{"two apart", []time.Duration{second, second + interval, second + grace, second + grace + 100, 2*second +
			grace + 100}, 0, 2 * (second + grace)},
		{"two close together", []time.Duration{second, second + 100, 2*second + 100}, 0, 2*second + 100 + grace},
		{"a suspension", []time.Duration{interval}, 5 * second, interval + grace + 5*second},
		{"a clock set forward", []time.Duration{interval}, 200 * 365 * 24 * time.Hour, interval + grace +
			session.MaxTimeout},
		{"a suspension within the grace", []time.Duration{second, second + 100}, 5 * second, second + 100 + grace +
			5*second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wall := time.Unix(0, 0)
			p := newStallDetector(interval, instant{begun, wall}, func() {})
			for i, at := range tt.looks {
				ahead := time.Duration(0)
				if i == len(tt.looks)-1 {
					ahead = tt.ahead
				}
				p.observe(instant{begun + at, wall.Add(at + ahead)})
			}
			if _, process, credit := p.ages(begun + time.Hour); credit != tt.want || process != time.Hour {
				t.Errorf("credited with %v after %v, want %v after 1h", credit, process, tt.want)
			}
		})
	}
}
