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

// check checks I1 and I8, in any weather. What is judged is each decision of a tracker that a session expires
// (history.Decided), not the entry that may be applied much later, or never: at that moment its sessions are due by
// what the tracker knows. Let Y lead term t, and decide at d about a session of timeout T whose owner is X under
// attachment a. All that follows holds on Y's clock, which never runs faster than time and stands while no round is
// good (A1); so each "full timeout" is T plus the time the clock stood in it. That second part is I8. A decision needs
// due = max(deadline, V(X)+T) <= clock, and V and the deadline give these grounds for a session to live on:
//
//   - term: Y's tracker began after it had applied an entry of its term (R5, E1): d >= that + T.
//   - move: if a was made in term t, Y's tracker took it as a touch when Y applied it (S2): d >= that + T.
//   - process: if X answered a heartbeat that was sent after its process began, Y knew since when it can vouch (E1): d
//     >= start + T.
//   - touch: a touch that the client sent at k and X answered as taken at k' was in X's table by k'. If Y, before d,
//     took in a whole answer of X to a heartbeat that was sent at or after k', the touch was in that answer or an
//     earlier one of the stream (T1), or of a former stream, and then in the complete first answer of this one (T3); Y
//     takes it, for the session is owned by X, and X, which serves a, has applied it (T5). Its age is the one it has
//     (T4): d >= k + T. If X has lost it by a restart in between, the answer says so: V >= start > k (E1). A touch that
//     only a former leader heard needs no ground of its own: the term is later.
//   - word (E2): if X was not lost at d, the good round that lets the session expire began at or after due, and X has
//     answered it. So what was known before the last heartbeat that X has answered was due when that was sent, and what
//     came with that very answer when it was taken in. X can be lost only if V is the moment of its silence, which is
//     after Y last heard of it: d >= that + T (E1). So before that moment X's word is needed, and this catches an
//     expiry that did not ask for it, and one that takes a lost owner's for silent before.
//
// Y knows at d what it took in strictly before; of what comes at the same instant nobody can tell, so it counts where
// it excuses.
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

// calmly checks without a word of the leader's what it comes to in a calm cluster: a touch that was taken keeps the
// session for a full timeout.
func (c early) calmly(l *life) {
	end, ok := l.expired()
	if !ok {
		return
	}
	for _, t := range l.voices {
		if t.Asked == 0 || t.Asked > end || t.Attachment != l.end.Attachment || !c.calm(t.Asked, end) {
			continue
		}
		c.checked("I1")
		if end < t.Asked+l.timeout {
			c.fail("I1", l.id, end, "expired %v after a touch that was taken, below its timeout %v: %s", end-t.Asked,
				l.timeout, history.Line(t))
		}
	}
}

// certified checks that an expiry rests on a decision of its own term about the attachment that it ended (E3), and what
// its certificate says.
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
	c.fail("I1", l.id, end, "expired with attachment %d, about which nobody had decided so in term %d",
		l.end.Attachment,
		cert.Term)
}

// ruling is the judgement of one decision.
type ruling struct {
	c     early
	l     *life
	t     *term
	d     history.Event
	owner session.Node
}

// ground is why a session has a full timeout from a moment; since is from when the clock that counted it is the
// tracker's.
type ground struct {
	name        string
	from, since time.Duration
	what        string
}

// holds checks that a ground had its full timeout when a moment came by which the session was due.
func (r *ruling) holds(g ground, moment time.Duration) {
	if invariant, what := r.wrong(g, moment); invariant != "" {
		r.c.fail(invariant, r.l.id, r.d.At, "%s decides to end it %s", r.d.Who, what)
	}
}

// wrong returns the invariant that a decision violates if the session was due at a moment, and how; empty for none.
func (r *ruling) wrong(g ground, moment time.Duration) (invariant, what string) {
	r.c.checked("I1 " + g.name)
	if moment < g.from+r.l.timeout {
		return "I1", fmt.Sprintf("%v after %s, below its timeout %v", moment-g.from, g.what, r.l.timeout)
	}
	stood := r.t.standing(g.since, moment)
	if stood == 0 {
		return "", ""
	}
	r.c.checked("I8")
	if moment < g.from+r.l.timeout+stood {
		return "I8", fmt.Sprintf("%v after %s, below its timeout %v and the %v without a good round since",
			moment-g.from, g.what, r.l.timeout, stood)
	}
	return "", ""
}

// grounds checks all but the owner's word.
func (r *ruling) grounds() {
	at := r.d.At
	r.holds(r.term(), at)
	if g, ok := r.move(); ok && g.from < at {
		r.holds(g, at)
	}
	heard := r.t.before(r.owner, at)
	if g, ok := r.process(heard); ok {
		r.holds(g, at)
	}
	if g, ok := r.touch(heard); ok {
		r.holds(g, at)
	}
}

func (r *ruling) term() ground {
	return ground{"term", r.t.began, r.t.first, "its term began"}
}

// move is the ground of the attachment itself, if this term made it.
func (r *ruling) move() (ground, bool) {
	for _, a := range r.l.applied {
		if a.Attachment == r.d.Attachment && a.Who == r.t.leader && a.Term == r.t.number {
			return ground{"move", a.At, a.At, "it had applied the entry that made the attachment"}, true
		}
	}
	return ground{}, false
}

// process is the ground of the owner's newest process that is known by hearings.
func (r *ruling) process(heard []hearing) (ground, bool) {
	starts := r.c.started[r.c.names[r.owner]]
	for _, start := range slices.Backward(starts) {
		if h, ok := covering(heard, start); ok {
			return ground{"process", start, h.at, "the start of the owner's process, which had answered it"}, true
		}
	}
	return ground{}, false
}

// touch is the ground of the newest touch that is known by hearings.
func (r *ruling) touch(heard []hearing) (ground, bool) {
	if len(heard) == 0 {
		return ground{}, false
	}
	var newest history.Event
	for _, t := range r.l.voices {
		if t.Attachment == r.d.Attachment && t.At <= heard[len(heard)-1].sent && t.Asked > newest.Asked {
			newest = t
		}
	}
	if newest.Asked == 0 {
		return ground{}, false
	}
	h, _ := covering(heard, newest.At)
	return ground{"touch", newest.Asked, h.at, "a touch of " + newest.Who + " that it had been told of"}, true
}

// word checks E2: a decision for which the owner cannot have been lost needs the owner's word.
func (r *ruling) word() {
	lost := r.t.began
	if heard := r.t.before(r.owner, r.d.At); len(heard) > 0 {
		lost = heard[len(heard)-1].at
	}
	if r.d.At >= lost+r.l.timeout+r.t.standing(lost, r.d.At) {
		r.c.checked("I1 lost")
		return
	}
	heard := r.t.by(r.owner, r.d.At)
	if len(heard) == 0 {
		return // the ground of the term has failed
	}
	words := r.words(heard)
	// An answer of the very moment may have come after the decision, which then rests on the answer before.
	if before := r.t.before(r.owner, r.d.At); len(before) > 0 && len(before) < len(heard) && !r.all(words) {
		words = r.words(before)
	}
	for _, w := range words {
		r.holds(w.ground, w.moment)
	}
}

// counted is a ground, and the moment by which it must have had its timeout.
type counted struct {
	ground ground
	moment time.Duration
}

// words are the grounds for which the newest of the answers that were heard of the owner must say that the session was
// due.
func (r *ruling) words(heard []hearing) (all []counted) {
	last := heard[len(heard)-1]
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
	add(last.at, r.process, heard)
	add(last.at, r.touch, heard)
	return all
}

// all reports whether every one of them holds.
func (r *ruling) all(words []counted) bool {
	return !slices.ContainsFunc(words, func(w counted) bool {
		invariant, _ := r.wrong(w.ground, w.moment)
		return invariant != ""
	})
}
