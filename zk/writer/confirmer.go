package writer

import (
	"context"
	"maps"
	"sync"
	"time"

	"holdfast/session"
)

// roundPause is the shortest time between two rounds that the node asks for.
const roundPause = 10 * time.Millisecond

// Finder reads a session from the cluster, which needs a round.
type Finder interface {
	Find(ctx context.Context, id session.ID, o session.ReadOptions) (session.Listed, error)
}

// Confirmer restarts writers whose session's touches were not confirmed in time (Z5 disconnected before expired). While
// there are such writers it asks the cluster for rounds, one at a time for all of them: a good round confirms the
// touches that the node reported before it. Safe for concurrent use.
type Confirmer struct {
	ctx      context.Context //nolint:containedctx // the server's lifetime
	finder   Finder
	counters *Counters

	mu      sync.Mutex
	blocked map[*Writer]time.Time // since when. guarded by mu
	running bool                  // guarded by mu
}

// NewConfirmer returns a confirmer that works until ctx ends.
func NewConfirmer(ctx context.Context, finder Finder, counters *Counters) *Confirmer {
	return &Confirmer{ctx: ctx, finder: finder, counters: counters, blocked: map[*Writer]time.Time{}}
}

// add adds a writer that is blocked since a moment.
func (c *Confirmer) add(w *Writer, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked[w] = since
	if !c.running {
		c.running = true
		go c.run()
	}
}

// remove reports whether a writer was blocked, and removes it.
func (c *Confirmer) remove(w *Writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, blocked := c.blocked[w]
	delete(c.blocked, w)
	return blocked
}

// run asks for rounds while writers are blocked.
func (c *Confirmer) run() {
	for {
		w := c.any()
		if w == nil {
			return
		}
		c.counters.Rounds.Add(1)
		c.round(&w.session)
		c.release(time.Now())
	}
}

// any returns a blocked writer. When there is none, or the server stops and ends all connections, it returns nil and
// the confirmer's goroutine ends.
func (c *Confirmer) any() *Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() == nil {
		for w := range c.blocked {
			return w
		}
	}
	c.running = false
	return nil
}

// round waits for a good round, at most for a part of the time that a writer may be blocked.
func (c *Confirmer) round(s *Session) {
	ctx, cancel := context.WithTimeout(c.ctx, s.Timeout/stuckPart/4)
	defer cancel()
	_, _ = c.finder.Find(ctx, s.ID, session.ReadOptions{}) // only the round matters
	t := time.NewTimer(roundPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// release starts the writers that may send again, or whose sessions have left, and ends the connections of those that
// have waited too long. It asks for promises without its lock. A connection that ends meanwhile takes its writer out
// itself, and counts as no unconfirmed one.
func (c *Confirmer) release(now time.Time) {
	c.mu.Lock()
	blocked := maps.Clone(c.blocked)
	c.mu.Unlock()
	for w, since := range blocked {
		switch {
		case w.maySend(), w.left.Load():
			if c.remove(w) {
				go w.run()
			}
		case now.Sub(since) > w.session.Timeout/stuckPart && c.remove(w):
			c.counters.Unconfirmed.Add(1)
			w.fail(errUnconfirmed)
		}
	}
}
