package leader

import (
	"time"

	"holdfast/session"
)

// state returns the time of the state as it is now.
func (t *Tree) state() session.LogTime {
	if t.Now == nil {
		return session.LogTime{}
	}
	return t.Now()
}

// at returns the time of the log when the accountable clock reads now (D3, Y3).
func (t *Tree) at(now time.Duration) session.LogTime { return t.state().At(t.RunningClock + now) }

// kept returns the moment of the accountable clock until which an operator has a session kept, as far as is known at
// now (Y4); 0 for none. A freeze puts it off.
func (t *Tree) kept(id session.ID, now time.Duration) time.Duration {
	if t.Kept == nil {
		return 0
	}
	until := t.Kept(id)
	if until == 0 {
		return 0
	}
	return now + until - t.at(now).Log
}

// overdue reports whether the state still has a freeze that has come to its bound.
func (t *Tree) overdue(now time.Duration) bool {
	f := t.state().Freeze
	return f != nil && t.RunningClock+now >= f.Until
}

// thaw takes in whether the state is frozen (Y3). It is called once for each entry, and as the term begins.
func (h *heartbeats) thaw(t *Tree) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.read(h.mono())
	h.frost.Look(t.state(), t.RunningClock+now, now)
}

// frozen returns for how long from now on nothing expires, 0 outside a freeze.
func (h *heartbeats) frozen() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.frost.Left(h.clock.read(h.mono()))
}

// heard returns the clock's reading, and the moment from which every session has its full timeout (Y3).
func (h *heartbeats) heard() (now, heard time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now = h.clock.read(h.mono())
	return now, h.frost.Heard(now)
}

// due returns when a session comes due (E1), and later if an operator has it kept (Y4). earned is when it does by E1.
func (x *expirer) due(it *item, now time.Duration, states *ownerStates) (due, earned time.Duration) {
	earned = states.due(it)
	if earned > now {
		return earned, earned
	}
	return max(earned, x.tree.kept(it.ID(), now)), earned
}

// freeze freezes the cluster, or thaws it (Y3). The entry decides: nobody needs to know what a leader thinks.
func (q *requests) freeze(r *session.FreezeRequest, done answered) {
	if r.For == 0 {
		q.propose(session.ThawExpiry{}, done)
		return
	}
	q.propose(session.FreezeExpiry{For: r.For, MS: min(q.wall.ms(), session.MaxMS), By: r.By, Why: r.Why}, done)
}

// extend keeps a session for a time (Y4). A session that was kept until now may be filed for the end of that time, and
// comes due earlier by the new word: so it is filed again.
func (q *requests) extend(r *session.ExtendRequest, done answered) {
	q.propose(session.ExtendSession{ID: r.ID, For: r.For}, func(reply session.Reply, err error) {
		q.registry.hasten(r.ID, q.heartbeats.now())
		q.heartbeats.wake.set()
		done(reply, err)
	})
}
