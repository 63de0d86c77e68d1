package learner

import (
	"context"
	"math"
	"sync"
	"time"

	"holdfast/session"
)

// maxConfirming is how many touches of one connection wait for their confirmation. Later ones are answered once. A client
// that touches no more than four times in a timeout has one or two.
const maxConfirming = 16

// confirmations has the touches that wait until the leader has confirmed them, so that their clients are promised more
// (S3). Safe for concurrent use.
type confirmations struct {
	table *TouchTable
	beats *heartbeats
	clock *clock
	// wake wakes run when the table may have confirmed touches.
	wake chan struct{}

	mu sync.Mutex
	// waiting are in the order of their tags. guarded by mu
	waiting []confirming
}

// confirming is a touch that waits.
type confirming struct {
	// tag is that of an answer that reports the touch for certain.
	tag uint64
	// confirmed is called once the answer is confirmed, or never will be.
	confirmed func()
}

func newConfirmations(table *TouchTable, beats *heartbeats, clock *clock) *confirmations {
	return &confirmations{table: table, beats: beats, clock: clock, wake: make(chan struct{}, 1)}
}

// expected reports whether touches are being confirmed: not while the node has learned of no good round (S4).
func (c *confirmations) expected() bool {
	quiet, ever := c.beats.quiet(c.clock.now())
	return ever && quiet < c.beats.jeopardyAfter()
}

// await has confirmed called, by another goroutine, when all touches that the table has heard are confirmed, or never
// will be. The next answer may have taken a part of the table already, so the one after the newest tag is awaited.
func (c *confirmations) await(confirmed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, confirming{c.table.newestTag() + 1, confirmed})
}

// look looks at what waits, without waiting itself.
func (c *confirmations) look() { notify(c.wake) }

// run tells what is confirmed until ctx ends.
func (c *confirmations) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			for _, one := range c.take() {
				one.confirmed()
			}
		}
	}
}

// take removes what waits no longer.
func (c *confirmations) take() []confirming {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.waiting) && c.table.settles(c.waiting[n].tag) {
		n++
	}
	settled := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	return settled
}

// TouchAndConfirm is Touch, and tells confirmed once the leader has confirmed the touch (S1), if more is promised then.
// Local sessions need no leader: a touch that includes one is answered once.
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

// confirms reports whether one more touch of the connection may wait for its confirmation.
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

// promisedSince returns the smallest promise for a touch of sessions that was received at a moment, of all sessions if
// ids is empty; negative if one of them has none, or has ended.
func (c *connection) promisedSince(ids []session.ID, at time.Duration) time.Duration {
	c.server.clock.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() || len(ids) == 0 && len(c.locals) > 0 {
		return -1
	}
	least := time.Duration(math.MaxInt64)
	for _, id := range ids {
		a := c.sessions.find(id)
		if a == nil {
			return -1
		}
		least = min(least, c.server.table.promised(a, at))
	}
	if len(ids) == 0 {
		least = c.server.table.promisedAll(&c.sessions, at)
	}
	return least
}

// Confirmed waits until the touches that this connection has made are confirmed, or ctx ends. It returns what is promised
// for each of the tokens then, counted from the first touch; negative for no more than the touch was told.
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
	c.server.clock.look()
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
