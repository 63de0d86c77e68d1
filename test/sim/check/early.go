package check

import (
	"fmt"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// early judges I1 and I8.
type early struct{ judge }

// check checks I1 and I8, in any weather. It judges each decision of a tracker that a session expires
// (history.Decided), because the sessions are due at that moment by the tracker's knowledge. It does not judge the
// entry, which may be applied much later or never.
//
// Let Y lead term t. At d it decides about a session of timeout T, whose owner is X under attachment a. Everything
// below holds on Y's clock, which never runs faster than time and stops while no round is good (A1 accountable clock).
// So each "full timeout" is T plus the time for which the clock was stopped in it; the second part is I8. A decision
// needs due = max(deadline, V(X)+T) <= clock. V and the deadline give the session these grounds to live on:
//
//   - thaw: a freeze was over at f, and Y's node applied that: d >= f + T (Y3 freeze).
//   - term: Y's tracker began at b, after Y had applied an entry of its term (R5 start of a tracker, E1 full timeout
//     after a change of leader): d >= b + T.
//   - move: if term t made a, Y's tracker took the move as a touch at the moment m at which Y applied it (S2 opens and
//     moves are touches): d >= m + T.
//   - process: if X answered a heartbeat that was sent after X's process began, Y knew since when X can vouch (E1): d
//     >= start + T.
//   - touch: the client sent a touch at k, and X answered it at k', so X's table had it by k'. Let Y, before d, take in
//     a whole answer of X to a heartbeat that was sent at or after k'. The touch was in that answer or an earlier one
//     of the stream (T1 atomic swap); or in one of a former stream, and then in the complete first answer of this
//     stream (T3 ordered streams). Y takes the touch: X owns the session, and X, which serves a, has applied it (T5 a
//     touch moves the deadline). The age of the touch is exact (T4 age of a touch): d >= k + T. If X lost the touch by
//     a restart, the answer says so: V >= start > k (E1). A touch that only a former leader received needs no ground of
//     its own: the term is later.
//   - word (E2 the owner answers first): if X was not lost at d, X has answered the good round that lets the session
//     expire, and that round began at or after due. So everything known before X's last answered heartbeat was due when
//     that heartbeat was sent, and everything that came with the answer was due when Y took it in. X is lost only if V
//     is the moment of its silence, which is after s, when Y last received an answer of X: d >= s + T (E1). Before that
//     moment X's word is needed. This ground catches an expiry without X's word, and one that counts a lost owner's
//     silence from too early.
//
// At d, Y knows the answers that arrived strictly before d. The order of events at d itself is unknown, so they only
// count in Y's favour.
func (c early) check(l *life) {
	c.calmly(l)
	c.certified(l)
	for _, d := range l.decided {
		made, ok := l.made(d.Attachment)
		t := c.terms[d.Term]
		if !ok || t == nil || l.timeout == 0 {
			continue
		}
		r := ruling{c: c, l: l, t: t, d: d, owner: made.Node}
		r.grounds()
		r.word()
	}
}

// calmly checks I1 without the leader's evidence: in a calm cluster an accepted touch keeps the session for a full
// timeout.
func (c early) calmly(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for _, t := range l.voices {
		if t.Sent == 0 || t.Sent > end || t.Attachment != l.end.Attachment || !c.calm(t.Sent, end) {
			continue
		}
		c.checked("I1")
		if end < t.Sent+l.timeout {
			c.fail("I1", l.id, end, "expired %v after an accepted touch, below its timeout %v: %s", end-t.Sent,
				l.timeout, history.Line(t))
		}
	}
}

// certified checks that an expiry follows from a decision of its own term about the attachment that it ended (E3
// ordered closes). It also checks the expiry's certificate.
func (c early) certified(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	cert := l.end.Certificate
	if cert == nil {
		return
	}
	if cert.LastTouchAge >= 0 {
		c.checked("I1 certificate")
		if cert.LastTouchAge < l.timeout {
			c.fail("I1", l.id, end, "its certificate says it was touched %v before, which is below its timeout %v",
				cert.LastTouchAge, l.timeout)
		}
	}
	if c.decisions == 0 {
		return
	}
	c.checked("E3")
	if cert.Term != l.end.Term {
		c.fail("E3", l.id, end, "decided in term %d, and ended by an entry of term %d", cert.Term, l.end.Term)
	}
	for _, d := range l.decided {
		if d.Term == cert.Term && d.Attachment == l.end.Attachment && d.At <= end {
			return
		}
	}
	c.fail("I1", l.id, end, "expired with attachment %d, without a decision about it in term %d",
		l.end.Attachment,
		cert.Term)
}

// ruling is the check of one decision.
type ruling struct {
	c     early
	l     *life
	t     *term
	d     history.Event
	owner session.Node
}

// ground is a reason for a session to live for a full timeout from a moment. since is when the tracker's clock began to
// count it.
type ground struct {
	name        string
	from, since time.Duration
	what        string
}

// holds checks that a ground had its full timeout by a moment at which the session was due.
func (r *ruling) holds(g ground, moment time.Duration) {
	if invariant, what := r.wrong(g, moment); invariant != "" {
		r.c.fail(invariant, r.l.id, r.d.At, "%s decides to end it %s", r.d.Who, what)
	}
}

// wrong returns which invariant a decision violates if the session was due at a moment, and how; empty for none.
func (r *ruling) wrong(g ground, moment time.Duration) (invariant, what string) {
	r.c.checked("I1 " + g.name)
	if moment < g.from+r.l.timeout {
		return "I1", fmt.Sprintf("%v after %s, below its timeout %v", moment-g.from, g.what, r.l.timeout)
	}
	stopped := r.t.stoppedFor(g.since, moment)
	if stopped == 0 {
		return "", ""
	}
	r.c.checked("I8")
	if moment < g.from+r.l.timeout+stopped {
		return "I8", fmt.Sprintf("%v after %s, below its timeout %v and the %v without a good round since",
			moment-g.from, g.what, r.l.timeout, stopped)
	}
	return "", ""
}

// grounds checks every ground except the owner's answers.
func (r *ruling) grounds() {
	at := r.d.At
	r.holds(r.term(), at)
	if g, ok := r.move(); ok && g.from < at {
		r.holds(g, at)
	}
	if thawed, ok := r.c.thaw(r.t.leader, r.t.began, at); ok {
		r.holds(ground{"thaw", thawed.over(), thawed.over(), "the end of a freeze"}, at)
	}
	received := r.t.before(r.owner, at)
	if g, ok := r.process(received); ok {
		r.holds(g, at)
	}
	if g, ok := r.touch(received); ok {
		r.holds(g, at)
	}
}

func (r *ruling) term() ground {
	return ground{"term", r.t.began, r.t.first, "its term began"}
}

// move returns the ground of the attachment itself, if this term made it.
func (r *ruling) move() (ground, bool) {
	for _, a := range r.l.applied {
		if a.Attachment == r.d.Attachment && a.Who == r.t.leader && a.Term == r.t.number {
			return ground{"move", a.At, a.At, "it had applied the entry that made the attachment"}, true
		}
	}
	return ground{}, false
}

// process returns the ground of the owner's newest process that the hearings prove.
func (r *ruling) process(received []hearing) (ground, bool) {
	starts := r.c.started[r.c.names[r.owner]]
	for _, start := range slices.Backward(starts) {
		if h, ok := covering(received, start); ok {
			return ground{"process", start, h.at, "the start of the owner's process, which had answered it"}, true
		}
	}
	return ground{}, false
}

// touch returns the ground of the newest touch that the hearings prove.
func (r *ruling) touch(received []hearing) (ground, bool) {
	if len(received) == 0 {
		return ground{}, false
	}
	var newest history.Event
	for _, t := range r.l.voices {
		if t.Attachment == r.d.Attachment && t.At <= received[len(received)-1].sent && t.Sent > newest.Sent {
			newest = t
		}
	}
	if newest.Sent == 0 {
		return ground{}, false
	}
	h, _ := covering(received, newest.At)
	return ground{"touch", newest.Sent, h.at, "a touch of " + newest.Who + " that it knew of"}, true
}

// word checks E2: unless the owner may have been lost, a decision needs the owner's answer.
func (r *ruling) word() {
	lost := r.t.began
	if received := r.t.before(r.owner, r.d.At); len(received) > 0 {
		lost = received[len(received)-1].at
	}
	if r.d.At >= lost+r.l.timeout+r.t.stoppedFor(lost, r.d.At) {
		r.c.checked("I1 lost")
		return
	}
	received := r.t.by(r.owner, r.d.At)
	if len(received) == 0 {
		return // the ground of the term has failed
	}
	words := r.words(received)
	// An answer of the very moment may have come after the decision. The decision then rests on the answer before.
	if before := r.t.before(r.owner, r.d.At); len(before) > 0 && len(before) < len(received) && !r.all(words) {
		words = r.words(before)
	}
	for _, w := range words {
		r.holds(w.ground, w.moment)
	}
}

// counted is a ground, and the moment by which its timeout must be over.
type counted struct {
	ground ground
	moment time.Duration
}

// words returns the grounds that the owner's newest answer must show to be over.
func (r *ruling) words(received []hearing) (all []counted) {
	last := received[len(received)-1]
	add := func(moment time.Duration, find func([]hearing) (ground, bool), known []hearing) {
		if g, ok := find(known); ok {
			g.name, g.what = "word", g.what+", counted to the owner's last word"
			all = append(all, counted{g, moment})
		}
	}
	earlier := r.t.by(r.owner, last.sent)
	add(last.sent, r.process, earlier)
	add(last.sent, r.touch, earlier)
	add(last.sent, func([]hearing) (ground, bool) { return r.move() }, nil)
	add(last.at, r.process, received)
	add(last.at, r.touch, received)
	return all
}

// all reports whether every ground holds.
func (r *ruling) all(words []counted) bool {
	return !slices.ContainsFunc(words, func(w counted) bool {
		invariant, _ := r.wrong(w.ground, w.moment)
		return invariant != ""
	})
}
