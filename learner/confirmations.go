package learner

import (
	"context"
	"math"
	"sync"
	"time"

	"holdfast/session"
)

// maxConfirming is the number of touches of one connection that may wait for confirmation. Further touches are answered
// once. A client that touches at most four times in a timeout has one or two waiting.
const maxConfirming = 16

// confirmations holds the touches that wait for the leader's confirmation, after which their clients are promised more
// (S3 length of a promise). Safe for concurrent use.
type confirmations struct {
	table *TouchTable
	beats *heartbeats
	clock *clock
	// wake wakes run when the table may have confirmed touches.
	wake chan struct{}

	mu sync.Mutex
	// waiting is ordered by tag. guarded by mu
	waiting []confirming
}

// confirming is a waiting touch.
type confirming struct {
	// tag is the tag of an answer that certainly reports the touch.
	tag uint64
	// confirmed is called once the answer is confirmed, or can no longer be.
	confirmed func()
}

func newConfirmations(table *TouchTable, beats *heartbeats, clock *clock) *confirmations {
	return &confirmations{table: table, beats: beats, clock: clock, wake: make(chan struct{}, 1)}
}

// expected reports whether confirmations can be expected: not while the node learns of no good round (S4 jeopardy).
func (c *confirmations) expected() bool {
	quiet, ever := c.beats.quiet(c.clock.now())
	return ever && quiet < c.beats.jeopardyAfter()
}

// await calls confirmed, from another goroutine, when all touches in the table are confirmed, or can no longer be. The
// next answer may already have swapped a part of the table, so await waits for the answer after the newest tag.
func (c *confirmations) await(confirmed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, confirming{c.table.newestTag() + 1, confirmed})
}

// recheck makes run check the waiting touches. It returns at once.
func (c *confirmations) recheck() { notify(c.wake) }

// run reports confirmed touches until ctx ends.
func (c *confirmations) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			for _, one := range c.removeDone() {
				one.confirmed()
			}
		}
	}
}

// removeDone removes and returns the touches that need not wait any longer.
func (c *confirmations) removeDone() []confirming {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.waiting) && c.table.decided(c.waiting[n].tag) {
		n++
	}
	settled := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	return settled
}

// TouchAndConfirm touches like Touch, and calls confirmed once the leader has confirmed the touch (S1 confirmed
// touches), if that lengthens the promise. Local sessions need no leader: a touch that includes one is answered once.
func (c *connection) TouchAndConfirm(ids []session.ID, confirmed func(safeFor time.Duration)) session.Touched {
	touched := c.Touch(ids)
	at := c.server.clock.now()
	if len(touched.Failures) > 0 || !c.confirms() {
		return touched
	}
	c.server.confirmations.await(func() {
		c.confirming.Add(-1)
		if safe := c.promisedSince(ids, at); safe > touched.SafeFor {
			confirmed(safe)
		}
	})
	return touched
}

// confirms reports whether another touch of the connection may wait for confirmation.
func (c *connection) confirms() bool {
	if !c.server.confirmations.expected() {
		return false
	}
	if c.confirming.Add(1) > maxConfirming {
		c.confirming.Add(-1)
		return false
	}
	return true
}

// promisedSince returns the smallest promise for a touch of ids that was received at a moment; without ids, a touch of
// all sessions. It is negative if a session has no promise, or has ended.
func (c *connection) promisedSince(ids []session.ID, at time.Duration) time.Duration {
	c.server.clock.checkedNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() || len(ids) == 0 && len(c.locals) > 0 {
		return -1
	}
	smallest := time.Duration(math.MaxInt64)
	for _, id := range ids {
		a := c.sessions.find(id)
		if a == nil {
			return -1
		}
		smallest = min(smallest, c.server.table.promised(a, at))
	}
	if len(ids) == 0 {
		smallest = c.server.table.promisedAll(&c.sessions, at)
	}
	return smallest
}

// Confirmed waits until the connection's touches so far are confirmed, or ctx ends. It returns the promise for each
// token, counted from the first touch; a negative value means no more than the promise in the touch's answer.
func (c *connection) Confirmed(ctx context.Context, since time.Time, tokens []session.Token) []time.Duration {
	if c.confirms() {
		done := make(chan struct{})
		c.server.confirmations.await(func() {
			c.confirming.Add(-1)
			close(done)
		})
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	c.server.clock.checkedNow()
	at := since.Sub(c.server.clock.base)
	promises := make([]time.Duration, len(tokens))
	for i, t := range tokens {
		promises[i] = -1
		if a := c.server.table.find(t.ID); !t.Local && a != nil && a.attachment == t.Attachment {
			promises[i] = c.server.table.promised(a, at)
		}
	}
	return promises
}
