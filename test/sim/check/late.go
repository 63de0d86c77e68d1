package check

import (
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// late judges I2.
type late struct{ judge }

// check checks I2: a silent session expires in time, at the latest after the last fault.
func (c late) check(l *life) {
	if l.silent == 0 || l.timeout == 0 || l.end != nil && l.end.At < l.silent {
		return
	}
	// A touch made just before the silence takes time to travel, and its deadline is 1/200 longer than the timeout (T5
	// a touch moves the deadline).
	due, kept := l.extension()+c.bounds.ExpiryInterval, c.released(l)
	by := l.silent + due + c.bounds.Calm
	if kept > 0 {
		by = max(by, behind(kept, c.bounds.ExpiryInterval+c.bounds.Interval+c.bounds.Commit))
	}
	if !c.calm(l.silent, by) {
		by = behind(max(l.silent, c.healed, kept), c.bounds.Recovery+due+c.bounds.Commit)
	}
	if by <= c.finished {
		c.checked("I2")
		if l.end == nil {
			c.fail("I2", l.id, c.finished, "silent since %.4fs, it should have expired by %.4fs, and never did",
				l.silent.Seconds(), by.Seconds())
		} else if l.end.At > by {
			c.fail("I2", l.id, l.end.At, "silent since %.4fs, it should have expired by %.4fs", l.silent.Seconds(),
				by.Seconds())
		}
	}
	c.lateInTerm(l)
}

// lateInTerm checks I2 by what the leader that ended a session knew, during and after faults too. The leader decides
// within the extended timeout, an expiry interval, the time of the slowest round (E2 the owner answers first) and a
// commit, from the latest of these moments:
//
//   - the silence began;
//   - the owner began to serve the attachment, from which its ages count then (T4 age of a touch);
//   - the term, or a later tracker of it, began ("fail-over"; the end is applied within timeout + 2 s of it);
//   - the leader's node applied the end of a freeze ("thawed", Y3);
//   - the owner's process began ("owner restarted", E1);
//   - the last answer of an owner that answers no more, plus an interval ("owner lost": the heartbeat that
//     the owner did not answer was sent by then, E1);
//   - the connections between leader and owner were last reset ("owner lost" too: the owner's stream has ended).
//
// An operator may have kept it for longer ("kept", Y4): then the leader decides within an expiry interval, the time of
// the slowest round and a commit from the end of that.
//
// The credit for the stalls of the owner's process since then is added ("owner stalled", see credit).
//
// The check requires rounds in time meanwhile: a quorum's and, if the owner is not lost, the owner's. Without them the
// clock is stopped (A1 accountable clock), or the owner's answer is missing (E2 the owner answers first). When all
// recent faults concerned one node other than the leader, the end must be applied within a commit of its decision.
func (c late) lateInTerm(l *life) {
	if _, ok := l.expired(); !ok || l.end.Certificate == nil {
		return
	}
	t, made := c.terms[l.end.Certificate.Term], history.Event{}
	first, last, ok := l.decision(l.end.Certificate.Term, l.end.Attachment)
	if m, known := l.made(l.end.Attachment); known {
		made = m
	}
	voice, known := c.lastVoice(l)
	if t == nil || !ok || !known || made.Node == 0 || first.At < voice {
		return
	}
	voice = c.served(l, made, first.At, voice)
	from, name, lost := c.situation(t, made.Node, voice, first.At, l.timeout)
	by := c.silence(made.Node, from, voice, first.At) + l.extension() + c.bounds.ExpiryInterval +
		t.slowest(made.Node, from, first.At) + c.bounds.Commit
	if late := c.kept(l, t, made.Node, first.At); late > by {
		by, name = late, "kept"
	}
	if c.heardInTime(t, made.Node, lost, from, max(by, first.At)) {
		c.checked("I2 " + name)
		if first.At > by {
			c.fail("I2", l.id, first.At,
				"silent since %.4fs (%s since %.4fs), its expiry was decided only now, and was due by %.4fs",
				voice.Seconds(), name, from.Seconds(), by.Seconds())
		}
		if two := from + l.timeout + 2*time.Second; name == "fail-over" && c.single(from, l.end.At, t.leader) &&
			l.end.At > two {
			c.fail("I2", l.id, l.end.At, "term %d began at %.4fs, and it should have expired by %.4fs", t.number,
				from.Seconds(), two.Seconds())
		}
	}
	if c.single(last.At, l.end.At, t.leader) {
		c.checked("I2 commit")
		if l.end.At > last.At+c.bounds.Commit {
			c.fail("I2", l.id, l.end.At, "its expiry was decided at %.4fs, and its end was applied only now",
				last.At.Seconds())
		}
	}
}

// kept returns by when a session that an operator has extended must be decided on, 0 for another.
func (c late) kept(l *life, t *term, owner session.Node, decided time.Duration) time.Duration {
	over := c.released(l)
	if over == 0 {
		return 0
	}
	return behind(over, c.bounds.ExpiryInterval+t.slowest(owner, over, decided)+c.bounds.Commit)
}

// behind returns a moment and a time after it.
func behind(at, more time.Duration) time.Duration {
	if at == forever {
		return forever
	}
	return at + more
}

// served returns voice, or, if that is later, the moment at which the owner began to serve an attachment, before the
// decision to expire the session: a snapshot may have brought the attachment long after the entry was applied
// elsewhere.
func (c late) served(l *life, made history.Event, decided, voice time.Duration) time.Duration {
	owner := c.names[made.Node]
	if slices.ContainsFunc(l.applied, func(a history.Event) bool {
		return a.Who == owner && a.Attachment == made.Attachment
	}) {
		return voice // counted already
	}
	for _, a := range c.applied {
		if a.Who == owner && a.At > made.At && a.Index > made.Index && a.At < decided {
			return max(voice, a.At)
		}
	}
	return voice
}

// situation returns the moment from which a session's last timeout counts, and the name of its cause.
func (c late) situation(
	t *term, owner session.Node, voice, decided, timeout time.Duration,
) (from time.Duration, name string, lost bool) {
	from, name = c.restarts(t, voice, decided)
	for _, s := range c.started[c.names[owner]] {
		if s > from && s < decided {
			from, name = s, "owner restarted"
		}
	}
	for _, at := range c.resets[pair{t.leader, c.names[owner]}] {
		if at > from && at < decided {
			from, name = at, "owner lost"
		}
	}
	received := t.before(owner, decided)
	if len(received) == 0 {
		return from, name, true
	}
	last := received[len(received)-1].at
	if last+timeout > decided {
		return from, c.unlessStalled(name, owner, from, decided), false
	}
	if at := last + c.bounds.Interval; at > from {
		from, name = at, "owner lost"
	}
	return from, name, true
}

// restarts returns the moment from which a leader restarts the count for all sessions, voice if there is none, and the
// name of its cause.
func (c late) restarts(t *term, voice, decided time.Duration) (from time.Duration, name string) {
	from, name = voice, "silent"
	for _, at := range append(c.trackers[t.number], t.first) {
		if at > from && at < decided {
			from, name = at, "fail-over"
		}
	}
	if thawed, ok := c.thaw(t.leader, from, decided); ok {
		from, name = min(thawed.end(), decided), "thawed"
	}
	return from, name
}

// heardInTime reports whether rounds went on in time between two moments.
//
//nolint:revive // flag-parameter: whose answers are awaited
func (c late) heardInTime(t *term, owner session.Node, lost bool, from, till time.Duration) bool {
	gap := c.bounds.Interval * 3 / 2
	if !steady(t.turns, from, till, gap) {
		return false
	}
	if lost {
		return true
	}
	var own []time.Duration
	for _, h := range t.received[owner] {
		own = append(own, h.at)
	}
	for _, s := range c.stalls[c.names[owner]] { // a stalled process answers at the end of the stall
		for at := s.from; at < s.till; at += c.bounds.Interval {
			own = append(own, at)
		}
	}
	slices.Sort(own)
	return steady(own, from, till, gap)
}

// silence returns the moment at which the silence of a session begins to count, if it counts from a given moment on. If
// that is the voice, the moment is only a bound of when the owner last got a touch.
func (c late) silence(owner session.Node, from, voice, till time.Duration) time.Duration {
	if from == voice {
		return c.spared(owner, voice, till)
	}
	return from + c.credit(owner, from, till)
}

// unlessStalled returns a situation's name, or "owner stalled" if the owner's process stalled between two moments.
func (c late) unlessStalled(name string, owner session.Node, from, till time.Duration) string {
	if c.credit(owner, from, till) > 0 {
		return "owner stalled"
	}
	return name
}
