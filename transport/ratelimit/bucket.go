package ratelimit

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

// minRetry is the shortest retry time: below, a retry costs more than the wait saves.
const minRetry = time.Millisecond

// burstPart is the part of a second's tokens that may be used at once. It covers requests that come at the same moment
// in a healthy cluster, and refused clients that come back late.
const burstPart = 10

// maxCost bounds the cost of one request, and so the debt of a bucket. Without the bound, a call that names
// thousands of sessions would make every client wait for minutes at a low rate, and sessions would expire.
const maxCost = int64(time.Second)

// bucket is one rate limit: a token bucket, and the queue of the requests that it refused. It takes no lock and
// allocates nothing, because every touch passes a bucket. All moments are in nanoseconds from a base that the user
// chooses.
//
// The bucket stores the moment up to which the tokens are used: it is full when that moment has passed, and empty when
// that moment is a whole burst ahead. A refused request gets a slot in the queue. The retry time of a slot is the
// moment at which a token would come without a queue, plus one interval for each token that the slots ahead wait for.
// So a herd comes back at the rate of the limit, and each request finds its token. A new request can take such a
// token; then a later request is refused again, and gets the last slot of the queue.
//
// Two rules keep the queue no longer than the requests that come back. A slot is released when its request comes back
// or its connection ends: see [Reservations]. A slot whose request never comes back stops counting when its retry time
// has passed. Requests without a reservation get retry times behind the queue and do not lengthen it: otherwise a flood
// of calls from clients that have gone would delay live sessions until they expire. A queue longer than
// [session.MaxRetryAfter] starts again: retry times are then assigned twice, and every second client is refused again.
type bucket struct {
	// interval is the time between two tokens; 0 is no limit.
	interval int64
	// burst is the time to fill the bucket.
	burst int64

	// promised is the last retry time with a reservation, loose the last one without.
	used, promised, loose atomic.Int64
	// waiting is the time that the tokens of all reserved slots need.
	waiting atomic.Int64
}

// limit sets the rate, in tokens per second; 0 is no limit. Call it before the bucket is used.
func (b *bucket) limit(rate int) {
	if rate <= 0 {
		return
	}
	b.interval = (int64(time.Second) + int64(rate) - 1) / int64(rate)
	b.burst = b.interval * int64(max(rate/burstPart, 1))
}

// cost is the time that the tokens for a request of n need.
func (b *bucket) cost(n int) int64 { return min(int64(n)*b.interval, maxCost) }

// take takes n tokens, or none. One available token is enough, and the bucket is in debt afterwards: otherwise requests
// for many tokens would wait for ever while others take one at a time.
func (b *bucket) take(now int64, n int) bool {
	if b.interval == 0 || n <= 0 {
		return true
	}
	for {
		used := b.used.Load()
		from := max(used, now)
		if from-now+b.interval > b.burst {
			return false
		}
		if b.used.CompareAndSwap(used, from+b.cost(n)) {
			return true
		}
	}
}

// refund returns the tokens of a request for n that was not served.
func (b *bucket) refund(n int) { b.used.Add(-b.cost(n)) }

// wait reserves the next slot for a request that take has just refused, and returns its retry time. The retry time is
// not after due, the retry time of the request's former slot, unless due has passed. The caller releases the slot with
// leave.
func (b *bucket) wait(now, due int64) int64 {
	cost := b.interval
	ahead := b.waiting.Add(cost) - cost
	for {
		promised := b.promised.Load()
		slot := b.lastSlot(now, promised, cost, ahead)
		if now < due && due < slot {
			return due
		}
		if b.promised.CompareAndSwap(promised, slot) {
			return slot
		}
	}
}

// leaveQueue releases the slots of n tokens.
func (b *bucket) leaveQueue(n int) { b.waiting.Add(-int64(n) * b.interval) }

// refuse returns the retry time of a request for n tokens that take has just refused, without a reservation.
func (b *bucket) refuse(now int64, n int) int64 {
	cost := b.cost(n)
	for {
		loose := b.loose.Load()
		slot := max(b.lastSlot(now, b.promised.Load(), cost, b.waiting.Load()), loose+cost)
		if slot > now+int64(session.MaxRetryAfter) {
			slot = b.first(now)
		}
		if b.loose.CompareAndSwap(loose, slot) {
			return slot
		}
	}
}

// lastSlot returns the retry time of the last slot, from the wait ahead of it and the last retry time.
func (b *bucket) lastSlot(now, promised, cost, ahead int64) int64 {
	first := b.first(now)
	slot := max(min(promised+cost, first+ahead), first)
	if slot > now+int64(session.MaxRetryAfter) {
		slot = first
	}
	return slot
}

// first returns the moment of the next token if no other request comes: after about [maxCost] at the latest.
func (b *bucket) first(now int64) int64 {
	return max(b.used.Load(), now) + b.interval - b.burst
}

// idle reports whether the bucket is in the state of a new one.
func (b *bucket) idle(now int64) bool {
	return b.used.Load() <= now && b.promised.Load() <= now && b.loose.Load() <= now
}
