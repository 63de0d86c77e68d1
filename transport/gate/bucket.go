package gate

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

// leastHint is the least that a refused client is asked to wait: below it, asking again costs more than the wait saves.
const leastHint = time.Millisecond

// burstPart is the part of a second's budget that may be used at once: what comes at the same moment in a healthy
// cluster, and what clients that were asked back at different moments are late by.
const burstPart = 10

// mostAtOnce is what one request costs at the most, and so the most that a bucket is in debt: a call that names
// thousands would otherwise have everybody wait for minutes, and sessions expire, where the budget is small.
const mostAtOnce = int64(time.Second)

// bucket is one budget: a token bucket, and the queue of those whom it refused. It takes no lock and allocates nothing,
// because every touch passes one. All moments are in nanoseconds from a base that its user chooses.
//
// It is kept as the moment up to which the budget is used: a bucket is full when that has passed, and empty when it is
// a whole burst ahead. The moment that is promised to a refused client is that of its place in the queue: one interval
// for each token that others wait for, after the moment at which a token would be there if nobody else came. So a herd
// comes back at the rate of the budget, each to a token of its own; who comes unasked can take one, and then somebody
// is refused again and is promised the end of the queue.
//
// Two things keep the queue from being longer than what comes back. A place is given up when its request comes back, or
// its connection ends, and is counted no longer: see [Reservations]. And who never comes back is counted no longer when
// the moments that were promised have passed. Requests without a place are promised moments behind the queue, and make
// it no longer for those who have one: otherwise a flood of calls whose callers are gone would have sessions wait until
// they expire. A queue longer than [session.MaxRetryAfter] begins anew: the moments are promised twice, and every
// second client is asked to wait again.
type bucket struct {
	// interval is the time one token takes to come; 0 is no limit.
	interval int64
	// burst is the time it takes to fill the bucket.
	burst int64

	// promised is the last moment that was promised with a place, loose the last without.
	used, promised, loose atomic.Int64
	// waiting is how long the tokens take that places are held for.
	waiting atomic.Int64
}

// limit sets the budget, in tokens a second; 0 is no limit. It is called before the bucket is used.
func (b *bucket) limit(rate int) {
	if rate <= 0 {
		return
	}
	b.interval = (int64(time.Second) + int64(rate) - 1) / int64(rate)
	b.burst = b.interval * int64(max(rate/burstPart, 1))
}

// cost is how long the tokens that a request for n is charged for take to come.
func (b *bucket) cost(n int) int64 { return min(int64(n)*b.interval, mostAtOnce) }

// take takes n tokens, or none. They are taken when there is one, and the bucket is in debt from then on: requests for
// many would otherwise wait for ever while others take one at a time.
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

// giveBack returns what a request for n took for nothing.
func (b *bucket) giveBack(n int) { b.used.Add(-b.cost(n)) }

// wait takes a place for one whom take refused a token at the same moment, and returns the moment at which it is to
// come back: not after due, the moment of the place that it has given up to ask now, unless that has passed. The caller
// gives the place up with leave.
func (b *bucket) wait(now, due int64) int64 {
	cost := b.interval
	ahead := b.waiting.Add(cost) - cost
	for {
		promised := b.promised.Load()
		slot := b.place(now, promised, cost, ahead)
		if now < due && due < slot {
			return due
		}
		if b.promised.CompareAndSwap(promised, slot) {
			return slot
		}
	}
}

// leave gives up a place for n tokens.
func (b *bucket) leave(n int) { b.waiting.Add(-int64(n) * b.interval) }

// refuse returns the moment at which one without a place is to come back, whom take refused n tokens at the same
// moment.
func (b *bucket) refuse(now int64, n int) int64 {
	cost := b.cost(n)
	for {
		loose := b.loose.Load()
		slot := max(b.place(now, b.promised.Load(), cost, b.waiting.Load()), loose+cost)
		if slot > now+int64(session.MaxRetryAfter) {
			slot = b.first(now)
		}
		if b.loose.CompareAndSwap(loose, slot) {
			return slot
		}
	}
}

// place returns the moment of the last place, given what is waited for ahead of it and the last moment that was
// promised.
func (b *bucket) place(now, promised, cost, ahead int64) int64 {
	first := b.first(now)
	slot := max(min(promised+cost, first+ahead), first)
	if slot > now+int64(session.MaxRetryAfter) {
		slot = first
	}
	return slot
}

// first returns when there is a token if nobody else comes: after about [mostAtOnce] at the latest.
func (b *bucket) first(now int64) int64 {
	return max(b.used.Load(), now) + b.interval - b.burst
}

// idle reports whether the bucket is as good as a new one.
func (b *bucket) idle(now int64) bool {
	return b.used.Load() <= now && b.promised.Load() <= now && b.loose.Load() <= now
}
