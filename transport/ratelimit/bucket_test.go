package ratelimit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session"
)

func newBucket(rate int) *bucket {
	b := &bucket{}
	b.limit(rate)
	return b
}

// At any moment, the number of used tokens is the burst plus what the rate has added since, if there is always a
// request.
func TestBucketKeepsItsRate(t *testing.T) {
	const rate, burst = 1000, 100
	b := newBucket(rate)
	taken := 0
	for now := int64(0); now <= int64(3*time.Second); now += int64(100 * time.Microsecond) {
		for b.take(now, 1) {
			taken++
		}
		if want := burst + int(now/int64(time.Millisecond)); taken != want {
			t.Fatalf("after %v %d were taken, want %d", time.Duration(now), taken, want)
		}
	}
	if !b.take(int64(time.Hour), burst) || b.take(int64(time.Hour), 1) {
		t.Errorf("a burst after an hour of rest does not have %d tokens", burst)
	}
}

// A token comes exactly when its interval has passed, to the nanosecond.
func TestBucketTokenComesOnTime(t *testing.T) {
	b := newBucket(5) // with a burst of one
	if !b.take(0, 1) || b.take(199_999_999, 1) || !b.take(200_000_000, 1) {
		t.Error("a token did not come after exactly 200 ms")
	}
}

func TestBucketThatIsNoLimit(t *testing.T) {
	b := newBucket(0)
	for range 1000 {
		if !b.take(0, session.MaxTouchBatch) {
			t.Fatal("a bucket with rate 0 refused a request, want no limit")
		}
	}
	if one := newBucket(1); !one.take(0, 0) || !one.take(0, 1) {
		t.Error("a request for 0 tokens was charged")
	}
}

// A full bucket serves a request for more than it holds, and is in debt afterwards.
func TestBucketInDebt(t *testing.T) {
	b := newBucket(1000)
	if !b.take(0, 500) {
		t.Fatal("a full bucket refuses what it can never hold")
	}
	ms := int64(time.Millisecond)
	if b.take(400*ms, 1) || !b.take(401*ms, 1) {
		t.Error("a debt of 500 tokens at 1,000 a second is not paid off after 401 ms, or earlier")
	}
	b.refund(1)
	if !b.take(401*ms, 1) {
		t.Error("a token that was given back is not available")
	}
}

// However many sessions one request names, no other request waits more than a second for it: other clients must not
// lose live sessions to it.
func TestBucketBoundsTheDebt(t *testing.T) {
	for _, rate := range []int{1, 100, 2500} {
		b := newBucket(rate)
		if !b.take(0, session.MaxTouchBatch) {
			t.Fatal("a full bucket refuses what it can never hold")
		}
		paid := int64(time.Second) + b.interval - b.burst
		if got := b.refuse(0, 1); got != paid {
			t.Errorf("a rate of %d tells other requests to wait %v", rate, time.Duration(got))
		}
		if one := b.refuse(0, session.MaxTouchBatch); one > paid+int64(time.Second) {
			t.Errorf("a rate of %d tells a request for many to wait %v", rate, time.Duration(one))
		}
		if b.take(paid-1, 1) || !b.take(paid, session.MaxTouchBatch) {
			t.Errorf("a rate of %d is not paid off on time", rate)
		}
		b.refund(session.MaxTouchBatch)
		if got, want := b.used.Load(), b.burst-b.interval+paid; got != want {
			t.Errorf("refund did not restore the tokens of take: the tokens are used up to %v, want %v",
				time.Duration(got), time.Duration(want))
		}
	}
}

// Requests refused at the same moment get retry times one after the other, at the rate of the bucket. Each finds a
// token at its retry time, also when it comes a little later.
func TestBucketAsksAHerdBackAtItsRate(t *testing.T) {
	const rate, herd = 1000, 5000
	random := rand.New(rand.NewPCG(1, 2))
	b := newBucket(rate)
	var back [6000]int // by millisecond
	served, last := 0, time.Duration(0)
	for range herd {
		if b.take(0, 1) {
			served++
			continue
		}
		hint := time.Duration(b.wait(0, 0))
		if hint != last+time.Millisecond && served > 0 && last > 0 {
			t.Fatalf("a hint of %v follows one of %v, want a millisecond more", hint, last)
		}
		last = hint
		back[int(hint.Milliseconds())+random.IntN(50)]++
	}
	if want := herd - rate/burstPart; served != rate/burstPart || last != time.Duration(want)*time.Millisecond {
		t.Fatalf("%d served at once, the last one told to wait %v; want %d, %v", served, last, rate/burstPart, want)
	}
	again := 0
	for ms, n := range back {
		for range n {
			b.leaveQueue(1)
			if !b.take(int64(ms)*int64(time.Millisecond), 1) {
				again++
			}
		}
	}
	if again > 0 {
		t.Errorf("%d of %d requests that came back at their retry times were refused again", again, herd)
	}
}

// No wait is longer than a client's longest: the bucket gives the same retry times once more instead, spread as before.
func TestBucketBoundsTheWait(t *testing.T) {
	b := newBucket(10)
	b.take(0, 1)
	seen := map[time.Duration]int{}
	for range 900 {
		hint := time.Duration(b.wait(0, 0))
		if hint <= 0 || hint > session.MaxRetryAfter {
			t.Fatalf("a hint of %v", hint)
		}
		seen[hint]++
	}
	if len(seen) != 300 {
		t.Errorf("%d retry times for 900 waits, want one every 100 ms of %v", len(seen), session.MaxRetryAfter)
	}
	for hint, n := range seen {
		if n != 3 {
			t.Errorf("%d requests were told to wait %v, want 3", n, hint)
		}
	}
}

// A request for many tokens is served while others use one at a time: it needs one token, and puts the bucket into
// debt.
func TestBucketStarvesNoRequestForMany(t *testing.T) {
	b := newBucket(1000)
	for b.take(0, 1) {
	}
	ms := int64(time.Millisecond)
	if !b.take(ms, 500) || b.take(500*ms, 1) || !b.take(501*ms, 1) {
		t.Error("500 tokens were not taken with the first one, or not paid off when 500 more had come")
	}
	if one, many, next := b.refuse(501*ms, 1), b.refuse(501*ms, 10), b.refuse(501*ms, 1); one != 502*ms ||
		many != one+10*ms || next != many+ms {
		t.Errorf("retry times: %d, then %d for ten, then %d", one, many, next)
	}
}

// No request waits behind requests that have gone: the next slot is behind the requests that still wait.
func TestBucketForgetsReleasedSlots(t *testing.T) {
	b := newBucket(1000)
	for b.take(0, 1) {
	}
	ms := int64(time.Millisecond)
	for range 30_000 {
		b.wait(0, 0)
	}
	b.leaveQueue(29_000)
	if got := b.wait(0, 0); got != 1001*ms {
		t.Errorf("behind 1,000 waiting requests: told to wait %v", time.Duration(got))
	}
	if got := b.wait(0, 0); got != 1002*ms {
		t.Errorf("behind 1,001 waiting requests: told to wait %v", time.Duration(got))
	}
	// Requests that neither come back nor end their connections are forgotten when their retry times have passed.
	if later := 40_000 * ms; b.take(later, 100) && b.wait(later, 0) > later+2*ms {
		t.Error("a request that never comes back still lengthens the queue")
	}
}

// A request that comes before its retry time keeps its slot, or gets an earlier one.
func TestBucketKeepsAPromise(t *testing.T) {
	b := newBucket(1000)
	for b.take(0, 1) {
	}
	ms := int64(time.Millisecond)
	for range 2000 {
		b.wait(0, 0)
	}
	b.leaveQueue(1)
	if got := b.wait(0, 500*ms); got != 500*ms {
		t.Errorf("told to wait %v, was promised 500 ms", time.Duration(got))
	}
	b.leaveQueue(1901)
	if got := b.wait(0, 500*ms); got != 100*ms {
		t.Errorf("with 99 left: told to wait %v", time.Duration(got))
	}
}

// A flood of requests without reservations does not lengthen the queue of reserved slots, and is spread itself.
func TestBucketKeepsSlotsFromAFlood(t *testing.T) {
	b := newBucket(1000)
	for b.take(0, 1) {
	}
	ms := int64(time.Millisecond)
	b.wait(0, 0)
	for i := range int64(20_000) {
		if got := b.refuse(0, 1); got != (i+2)*ms {
			t.Fatalf("request %d of the flood is told to wait %v", i, time.Duration(got))
		}
	}
	if got := b.wait(0, 0); got != 2*ms {
		t.Errorf("the next slot is after %v", time.Duration(got))
	}
}

// A bucket that has given a retry time is not idle, and not replaced, until that time.
func TestBucketThatHasPromisedIsNotIdle(t *testing.T) {
	for _, promise := range []func(*bucket) int64{
		func(b *bucket) int64 { return b.refuse(0, 1) }, func(b *bucket) int64 { return b.wait(0, 0) },
	} {
		b := newBucket(10)
		b.take(0, 1)
		var last int64
		for range 20 {
			last = promise(b)
		}
		if b.idle(last-1) || !b.idle(last) {
			t.Errorf("idle: %t just before the last retry time, %t at it", b.idle(last-1), b.idle(last))
		}
	}
}

// Concurrent requests use no more than the burst.
func TestBucketTakersRace(t *testing.T) {
	const rate = 10_000
	b := newBucket(rate)
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if b.take(0, 1) {
					taken.Add(1)
				} else {
					b.refuse(0, 1)
				}
			}
		})
	}
	all.Wait()
	if got := taken.Load(); got != rate/burstPart {
		t.Errorf("%d taken at one moment, want %d", got, rate/burstPart)
	}
	// Each refused request got a retry time of its own.
	if got, want := time.Duration(b.refuse(0, 1)), time.Duration(8000-rate/burstPart+1)*time.Second/rate; got != want {
		t.Errorf("the next hint is %v, want %v", got, want)
	}
}
