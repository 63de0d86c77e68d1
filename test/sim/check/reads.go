package check

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// reads judges N3, N4 and R4.
type reads struct{ judge }

// check checks clients' reads. The nodes' records show each session's state at each index (I6 same state). An
// answer with index t to a client that had seen s shows each session as it was at one index from s to t:
//
//   - N3: it was so at some index up to t. The answer shows a prefix of the log, and no more of the log than its index.
//   - N4: t >= s, and it was so at s or later. s is the highest index in answers to the client before it asked; the
//     client's library must know it too.
//   - R4, for a read that only a leader's word may answer, or that a read-write node answered: t is not below any index
//     that any client had received before the read was sent, nor below any open, resume or end that was answered by
//     then. It was so at the newest of these indexes or later.
//
// Only a local session's own node can show it, so local sessions are left out.
func (c reads) check() {
	if len(c.shown) == 0 {
		return
	}
	p := past{c: c, of: make(map[session.ID][]history.Event), seen: make(map[string][]notice)}
	p.learn()
	last := make(map[string]session.Node)
	for _, e := range c.shown {
		p.judge(e)
		if was := last[e.Who]; was != 0 && was != e.State.Node {
			c.checked("N4 elsewhere")
		}
		last[e.Who] = e.State.Node
		c.readAgain(e)
	}
}

// readAgain checks that a read-write node answers every read long after the last fault.
func (c reads) readAgain(e history.Event) {
	if c.healed == 0 || e.Sent < c.healed+c.bounds.Serve {
		return
	}
	c.checked("reads served")
	if e.State.Mode != session.ModeReadWrite {
		c.misled(e, "liveness", "%v after the last fault a node is %s", e.Sent-c.healed, e.State.Mode)
	}
}

// notice is an index that is known from a moment on.
type notice struct {
	at    time.Duration
	index uint64
}

// past is how each session was at each index, and which index was known when.
type past struct {
	c reads
	// of holds the changes of each session, in the order of the log. ids are the ids of all these sessions.
	of  map[session.ID][]history.Event
	ids []session.ID
	// acknowledged are the indexes that any client received, seen those that each client received. In both, indexes
	// rise with time.
	acknowledged []notice
	seen         map[string][]notice
}

func (p *past) learn() {
	for _, l := range p.c.sorted() {
		p.remember(l)
	}
	for _, e := range p.c.states {
		p.acknowledged = append(p.acknowledged, notice{e.At, e.State.Index})
		p.seen[e.Who] = rising(append(p.seen[e.Who], notice{e.At, e.State.Index}))
	}
	slices.SortStableFunc(p.acknowledged, func(a, b notice) int { return cmp.Compare(a.at, b.at) })
	for i := range p.acknowledged {
		rising(p.acknowledged[:i+1])
	}
}

// remember records the changes of a session, and the clients that learnt of them.
func (p *past) remember(l *life) {
	changes := slices.Concat(l.applied, l.ends)
	slices.SortStableFunc(changes, func(a, b history.Event) int { return cmp.Compare(a.Index, b.Index) })
	changes = slices.CompactFunc(changes, func(a, b history.Event) bool {
		return a.Index == b.Index && a.Kind == b.Kind && a.Attachment == b.Attachment
	})
	if len(changes) == 0 || p.c.locals[l.id] != nil {
		return
	}
	p.of[l.id], p.ids = changes, append(p.ids, l.id)
	for _, g := range l.grants {
		if made, ok := l.made(g.Attachment); ok {
			p.acknowledged = append(p.acknowledged, notice{g.At, made.Index})
		}
	}
	if l.end == nil {
		return
	}
	for _, e := range slices.Concat(l.closes, l.gone) {
		p.acknowledged = append(p.acknowledged, notice{e.At, l.end.Index})
	}
}

// rising makes the last notice include the notice before it.
func rising(all []notice) []notice {
	if n := len(all); n > 1 {
		all[n-1].index = max(all[n-1].index, all[n-2].index)
	}
	return all
}

// before returns the highest index that was known before a moment.
func before(all []notice, at time.Duration) uint64 {
	i := sort.Search(len(all), func(i int) bool { return all[i].at >= at })
	if i == 0 {
		return 0
	}
	return all[i-1].index
}

// judge checks one answer.
func (p *past) judge(e history.Event) {
	c, seen := p.c, before(p.seen[e.Who], e.Sent)
	if seen > e.Read.Seen {
		c.misled(e, "N4", "its client had received index %d before, and has forgotten", seen)
	}
	low := max(seen, e.Read.Seen)
	if low > 0 {
		c.checked("N4")
	}
	if e.State.Index < low {
		c.misled(e, "N4", "older than index %d, which its client had seen", low)
		return
	}
	rule := "N3"
	if !e.Read.Allows || e.State.Mode == session.ModeReadWrite {
		rule = "R4"
		known := before(p.acknowledged, e.Sent)
		if low = max(low, known); e.State.Index < known {
			c.misled(e, rule, "older than index %d, which was acknowledged before the read began", known)
			return
		}
	}
	c.checked(rule)
	if e.Read.Page {
		p.lists(e, rule, low)
	} else {
		p.shows(e, e.ID, rule, low)
	}
}

// lists checks a page: each session that it shows or omits.
func (p *past) lists(e history.Event, rule string, low uint64) {
	from := sort.Search(len(p.ids), func(i int) bool { return p.ids[i] > e.Read.After })
	for _, id := range p.ids[from:] {
		if e.Read.Through != 0 && id > e.Read.Through {
			break
		}
		p.shows(e, id, rule, low)
	}
	for _, s := range e.Read.Sessions {
		if p.of[s.ID] == nil && p.c.locals[s.ID] == nil {
			p.c.misled(e, "N3", "session %s was never opened", s.ID)
		}
	}
}

// shows checks one session in an answer: it had the shown state at some index between low and the index of the answer.
func (p *past) shows(e history.Event, id session.ID, rule string, low uint64) {
	if p.c.locals[id] != nil {
		return
	}
	reported, so := e.State.Index, p.so(e, id)
	fits := func(from, till uint64) bool {
		return slices.ContainsFunc(so, func(r reign) bool { return r.from <= till && r.till >= from })
	}
	e.ID = id // the violation concerns this session
	switch {
	case fits(low, reported):
	case fits(0, reported) && rule == "N3":
		p.c.misled(e, "N4", "its answer was true only before index %d, which its client had seen", low)
	case fits(0, reported):
		p.c.misled(e, rule, "its answer was true only before index %d, which was acknowledged before the read began",
			low)
	case fits(0, math.MaxUint64):
		p.c.misled(e, "N4", "its answer was not yet true at the index that it names")
	default:
		p.c.misled(e, "N3", "its answer was never true")
	}
}

// reign is a range of indexes, both included.
type reign struct{ from, till uint64 }

// so returns the ranges of indexes in which a session had the shown state.
func (p *past) so(e history.Event, id session.ID) []reign {
	shown := shown{page: e.Read.Page, certificate: e.Certificate}
	if at := slices.IndexFunc(e.Read.Sessions, func(s session.Session) bool { return s.ID == id }); at >= 0 {
		shown.session = &e.Read.Sessions[at]
	}
	var all []reign
	for i, x := range append([]history.Event{{}}, p.of[id]...) {
		till := uint64(math.MaxUint64)
		if i < len(p.of[id]) {
			till = p.of[id][i].Index - 1
		}
		if shown.fits(x) {
			all = append(all, reign{x.Index, till})
		}
	}
	return all
}

// shown is an answer about one session: the session, the certificate of its end, or neither.
type shown struct {
	session     *session.Session
	certificate *session.Certificate
	page        bool
}

// fits reports whether the session is as shown after a change. The zero value is the time before the first
// change. Lists show living sessions only.
func (s shown) fits(x history.Event) bool {
	ended, absent := x.Kind == history.AppliedEnd, x.Kind == 0
	switch {
	case s.session != nil:
		return !ended && !absent && s.session.Attachment == x.Attachment && s.session.Owner == x.Node &&
			s.session.Timeout == x.Timeout
	case s.certificate != nil:
		return ended && x.Certificate != nil && certifies(s.certificate, x.Certificate)
	default:
		return absent || ended && s.page
	}
}

// certifies reports whether the shown certificate is the issued one. The age of the last touch may be unknown: any
// negative age says so.
func certifies(shown, issued *session.Certificate) bool {
	a, b := *shown, *issued
	a.LastTouchAge, b.LastTouchAge = max(a.LastTouchAge, -1), max(b.LastTouchAge, -1)
	return a.Equal(b)
}
