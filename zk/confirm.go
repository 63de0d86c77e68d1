package zk

import (
	"context"
	"sync"
	"time"

	"holdfast/session"
)

// confirmPause is the least time between two rounds that the node asks for.
const confirmPause = 10 * time.Millisecond

// confirmer lets connections go on whose session's touches were not confirmed in time (Z5). While there are any it asks
// the cluster for rounds, one at a time for all of them: a good round confirms what the node reported before it.
type confirmer struct {
	server *Server

	mu      sync.Mutex
	blocked map[*conn]time.Time // since when. guarded by mu
	running bool                // guarded by mu
}

func newConfirmer(s *Server) *confirmer {
	return &confirmer{server: s, blocked: map[*conn]time.Time{}}
}

// add lets a connection wait since a moment.
func (k *confirmer) add(c *conn, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blocked[c] = since
	if !k.running {
		k.running = true
		go k.run()
	}
}

// drop lets a connection that has ended go on: its writer ends.
func (k *confirmer) drop(c *conn) {
	k.mu.Lock()
	_, waits := k.blocked[c]
	delete(k.blocked, c)
	k.mu.Unlock()
	if waits {
		c.out.mu.Lock()
		c.out.leave()
		c.out.mu.Unlock()
	}
}

// run asks for rounds until nothing waits.
func (k *confirmer) run() {
	for {
		one := k.any()
		if one == nil {
			return
		}
		k.server.stats.rounds.Add(1)
		k.round(one)
		k.judge(time.Now())
	}
}

// any returns one of those that wait. With nil the confirmer has ended.
func (k *confirmer) any() *conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.blocked {
		return c
	}
	k.running = false
	return nil
}

// round waits for a good round, or until the first of those that wait has waited too long.
func (k *confirmer) round(of *conn) {
	ctx, cancel := context.WithTimeout(k.server.ctx, of.timeout/stuckPart/4)
	defer cancel()
	_, _ = k.server.service.Find(ctx, of.token.ID, session.ReadOptions{}) // it is the round that counts
	_ = pause(k.server.ctx, confirmPause)
}

// judge lets those go on whose session is safe again, or has left them, and ends those that have waited too long.
func (k *confirmer) judge(now time.Time) {
	k.mu.Lock()
	var safe, late []*conn
	for c, since := range k.blocked {
		switch {
		case c.out.mayTell(), c.out.fate.left.Load():
			safe = append(safe, c)
			delete(k.blocked, c)
		case now.Sub(since) > c.timeout/stuckPart || k.server.ctx.Err() != nil:
			late = append(late, c)
		}
	}
	k.mu.Unlock()
	for _, c := range safe {
		go c.out.write()
	}
	for _, c := range late {
		c.server.stats.unproven.Add(1)
		c.end(errUnproven)
	}
}
