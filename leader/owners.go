package leader

import (
	"time"

	"holdfast/session"
)

// lost reports whether m is lost at now (E1 full timeout after a change of leader). A node without a stream is lost,
// also a removed node, whose stream ended with its removal (M6 closing sessions stay). A node that has opened no stream
// in the term has lostAfter intervals to open one.
func (r *rounds) lost(m *member, now time.Duration) bool {
	at, ok := r.losing(m)
	return ok && at <= now
}

// losing returns the time at which m is lost unless it answers before; false if no answer or stream of m is due.
func (r *rounds) losing(m *member) (time.Duration, bool) {
	switch {
	case m.stream == nil && m.hello.Node != 0:
		return never, true
	case m.stream == nil:
		return lostAfter * r.pace.interval(), true
	case m.sent != nil:
		return m.sentAt + lostAfter*r.pace.interval(), true
	default:
		return 0, false
	}
}

// nextLoss returns the first moment after now at which a member is lost unless it answers; false for none.
func (r *rounds) nextLoss(now time.Duration) (time.Duration, bool) {
	first, found := time.Duration(0), false
	for _, m := range r.members {
		if at, ok := r.losing(m); ok && at > now && (!found || at < first) {
			first, found = at, true
		}
	}
	return first, found
}

// ownerState is the part of an owner's state that decides when its sessions expire.
type ownerState struct {
	// confirmed is V of E1: a session of the owner comes due at confirmed + its timeout at the earliest.
	confirmed time.Duration
	// stalls are the owner's stalls.
	stalls *session.Stalls
	// lost says that the owner is lost, and silent since when it has been silent.
	lost   bool
	silent time.Duration
	// back is the value that V of a lost owner will have when the owner answers again.
	back time.Duration
	// horizon is the beginning of the newest round that permits expiry of the owner's sessions that were due by then
	// (E2 the owner answers first).
	horizon time.Duration
}

// ownerStates are the states of all owners at one moment. A node that is not a member counts as lost (M6).
type ownerStates [1 << 8]ownerState

// owners returns the state of every owner at now. Every session has a full timeout from the moment fullFrom (Y3
// freeze).
func (r *rounds) owners(now, fullFrom time.Duration) *ownerStates {
	var all ownerStates
	for i := range all {
		all[i] = ownerState{confirmed: fullFrom, horizon: r.good.moment()}
	}
	for node, m := range r.members {
		w := &all[node]
		w.confirmed, w.stalls = max(w.confirmed, m.started), m.stalls.known
		if r.lost(m, now) {
			w.confirmed = max(w.confirmed, m.silent)
			w.back = max(fullFrom, m.started)
			w.lost, w.silent = true, max(m.silent, 0)
		} else {
			w.horizon = min(w.horizon, m.answered.moment())
		}
	}
	return &all
}

// due returns the time when a session comes due (E1).
func (w *ownerStates) due(it *item) time.Duration {
	return w[it.Value.owner].due(it.Deadline(), it.Value.timeout())
}

// holds reports whether a session comes due later because its owner is lost. When the owner answers, the session comes
// due earlier again.
func (w *ownerState) holds(it *item) bool {
	return w.lost && w.confirmed > w.back && w.confirmed+it.Value.timeout() > it.Deadline()
}

// plain is due without regard to the owner's stalls.
func (w *ownerState) plain(deadline, timeout time.Duration) time.Duration {
	return max(deadline, w.confirmed+timeout)
}

// due returns the time when a session of the owner comes due. The deadline is 0 before the session's first touch. The
// session's silence began a timeout and T/200 before due: at a touch, see intake.touch and shard.applied, or at
// confirmed.
func (w *ownerState) due(deadline, timeout time.Duration) time.Duration {
	due := w.plain(deadline, timeout)
	if w.stalls == nil {
		return due
	}
	return w.stalls.Due(due, due-extension(timeout), timeout)
}
