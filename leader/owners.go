package leader

import (
	"time"

	"holdfast/session"
)

// lost reports whether m is lost at now (E1). A node without a stream is lost, also a removed node, whose stream ended
// with its removal (M6). A node that has opened no stream in the term has lostAfter intervals to open one.
func (r *rounds) lost(m *member, now time.Duration) bool {
	at, ok := r.losing(m)
	return ok && at <= now
}

// losing returns when m is lost unless it answers before; false if no answer or stream of m is due.
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

// nextLoss returns the first moment after now at which a member is lost unless it answers; false if there is none.
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
	// vouches is V of E1: a session of the owner is not due before vouches + its timeout.
	vouches time.Duration
	// stalls are the owner's.
	stalls *session.Stalls
	// lost says that the owner is lost, and silent since when it is silent.
	lost   bool
	silent time.Duration
	// back is what V of a lost owner is once it answers again.
	back time.Duration
	// horizon is when the newest round began that lets the owner's sessions expire: those that were due by then (E2).
	horizon time.Duration
}

// ownerStates are the states of all owners at one moment. A node that is no member has the state of a lost one (M6).
type ownerStates [1 << 8]ownerState

// owners returns the state of every owner at now. Every session has a full timeout from the moment heard on (Y3).
func (r *rounds) owners(now, heard time.Duration) *ownerStates {
	var all ownerStates
	for i := range all {
		all[i] = ownerState{vouches: heard, horizon: r.good.moment()}
	}
	for node, m := range r.members {
		w := &all[node]
		w.vouches, w.stalls = max(w.vouches, m.started), m.stalls.known
		if r.lost(m, now) {
			w.vouches = max(w.vouches, m.silent)
			w.back = max(heard, m.started)
			w.lost, w.silent = true, max(m.silent, 0)
		} else {
			w.horizon = min(w.horizon, m.answered.moment())
		}
	}
	return &all
}

// due returns when a session comes due (E1).
func (w *ownerStates) due(it *item) time.Duration {
	return w[it.Value.owner].due(it.Deadline(), it.Value.timeout())
}

// holds reports whether a session comes due later because its owner is lost. It comes due earlier again when the owner
// answers.
func (w *ownerState) holds(it *item) bool {
	return w.lost && w.vouches > w.back && w.vouches+it.Value.timeout() > it.Deadline()
}

// plain is due without the stalls of the owner.
func (w *ownerState) plain(deadline, timeout time.Duration) time.Duration {
	return max(deadline, w.vouches+timeout)
}

// due returns when a session of the owner comes due. Its deadline is 0 before its first touch. Its silence began a
// timeout and T/200 earlier: at a touch, see intake.touch and shard.applied, or at vouches.
func (w *ownerState) due(deadline, timeout time.Duration) time.Duration {
	due := w.plain(deadline, timeout)
	if w.stalls == nil {
		return due
	}
	return w.stalls.Due(due, due-extension(timeout), timeout)
}
