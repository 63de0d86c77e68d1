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

// at returns the time of the log when the accountable clock reads now (D3 log clock, Y3 freeze).
func (t *Tree) at(now time.Duration) session.LogTime { return t.state().At(t.RunningClock + now) }

// kept returns the moment of the accountable clock until which an operator has extended a session, as known at now (Y4
// extension); 0 for none. A freeze postpones the moment.
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

// overdue reports whether a freeze of the state has reached its bound.
func (t *Tree) overdue(now time.Duration) bool {
	f := t.state().Freeze
	return f != nil && t.RunningClock+now >= f.Until
}

// updateFreezes updates freezes from the state (Y3). It is called at the beginning of the term and after each entry.
func (h *heartbeats) updateFreezes(t *Tree) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.read(h.mono())
	h.freezes.Update(t.state(), t.RunningClock+now, now)
}

// frozen returns the time from now for which no session expires; 0 outside a freeze.
func (h *heartbeats) frozen() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.freezes.Left(h.clock.read(h.mono()))
}

// readClock returns the clock's reading, and the moment fullFrom, from which every session has its full timeout (Y3).
func (h *heartbeats) readClock() (now, fullFrom time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now = h.clock.read(h.mono())
	return now, h.freezes.FullTimeoutFrom(now)
}

// due returns when a session comes due: by E1 (full timeout after a change of leader), or at the end of an operator's
// extension if that is later (Y4). earned is the due time by E1 alone.
func (x *expirer) due(it *item, now time.Duration, states *ownerStates) (due, earned time.Duration) {
	earned = states.due(it)
	if earned > now {
		return earned, earned
	}
	return max(earned, x.tree.kept(it.ID(), now)), earned
}

// freeze freezes the cluster, or thaws it (Y3). The entry decides, so no good round is needed.
func (q *requests) freeze(r *session.FreezeRequest, done answered) {
	if r.For == 0 {
		q.propose(session.ThawExpiry{}, done)
		return
	}
	q.propose(session.FreezeExpiry{For: r.For, MS: min(q.wall.ms(), session.MaxMS), By: r.By, Why: r.Why}, done)
}

// extend extends a session (Y4). The session may be filed at the end of a former, longer extension, so extend files it
// again.
func (q *requests) extend(r *session.ExtendRequest, done answered) {
	q.propose(session.ExtendSession{ID: r.ID, For: r.For}, func(reply session.Reply, err error) {
		q.registry.hasten(r.ID, q.heartbeats.now())
		q.heartbeats.wake.set()
		done(reply, err)
	})
}
