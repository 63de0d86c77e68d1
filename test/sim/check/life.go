package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// sessions are the lives of all sessions.
type sessions struct {
	lives map[session.ID]*life
	// locals are the sessions that started as local sessions.
	locals map[session.ID]*local
}

func (s *sessions) life(id session.ID) *life {
	l := s.lives[id]
	if l == nil {
		l = &life{id: id}
		s.lives[id] = l
	}
	return l
}

func (s *sessions) local(id session.ID) *local {
	l := s.locals[id]
	if l == nil {
		l = &local{life: &life{id: id}, stopped: forever}
		s.locals[id] = l
	}
	return l
}

// sorted returns the lives in the order of their ids.
func (s *sessions) sorted() []*life {
	return slices.SortedFunc(maps.Values(s.lives), func(a, b *life) int { return cmp.Compare(a.id, b.id) })
}

// sortedLocals returns the local sessions in the order of their ids.
func (s *sessions) sortedLocals() []*local {
	return slices.SortedFunc(maps.Values(s.locals), func(a, b *local) int { return cmp.Compare(a.id, b.id) })
}

// life is everything known about one session.
type life struct {
	id session.ID
	clientFacts
	nodeFacts
	acts
}

// clientFacts are clients' requests and answers about a session. Its lists are in the order of time.
type clientFacts struct {
	// grants are the answered opens, resumes and upgrades. promises are all answers with an end of a promise.
	grants, touches, promises, closes []history.Event
	moved, gone, contexts, alive      []history.Event
	onlyReads                         []history.Event
	// sent are the requests to close it.
	sent []history.Event
	// attempts are the closes that were sent, answered or not.
	attempts []history.Event
	// voices are the answers that prove a client alive to the owner.
	voices []history.Event
	// silent is when its client went silent for good, 0 for never, and fell when it did so first: a client that is
	// delayed, and then given up, goes silent twice. A later grant ends the silence.
	silent, fell time.Duration
}

// receive records what a client knows.
func (t *clientFacts) receive(e history.Event) {
	if e.Until != 0 {
		t.promises = append(t.promises, e)
	}
	if e.Op == history.Close || e.Kind == history.Closed {
		t.attempts = append(t.attempts, e)
	}
	switch e.Kind { //nolint:exhaustive // note files the other kinds
	case history.Opened, history.Resumed, history.Upgraded:
		t.grants, t.silent, t.fell = append(t.grants, e), 0, 0
		t.voices = append(t.voices, e)
	case history.Touched:
		t.touches = append(t.touches, e)
		t.voices = append(t.voices, e)
	case history.CloseSent:
		t.sent = append(t.sent, e)
		e.Sent = e.At
		t.attempts = append(t.attempts, e)
	case history.Closed:
		t.closes = append(t.closes, e)
	case history.LearntMoved:
		t.moved = append(t.moved, e)
	case history.LearntGone:
		t.gone = append(t.gone, e)
	case history.ContextEnded:
		t.contexts = append(t.contexts, e)
	case history.Alive:
		t.alive = append(t.alive, e)
	case history.OnlyReads:
		t.onlyReads = append(t.onlyReads, e)
	case history.Silent:
		if e.Attachment >= t.newestGrant().Attachment { // else another client keeps the session alive
			t.silent, t.fell = e.At, cmp.Or(t.fell, e.At)
		}
	}
}

// newestGrant returns the grant with the highest attachment.
func (t *clientFacts) newestGrant() history.Event {
	var newest history.Event
	for _, g := range t.grants {
		if g.Attachment > newest.Attachment {
			newest = g
		}
	}
	return newest
}

// closing reports whether the client of an event had requested the session's close by then. Such a client holds no
// promise any more.
func (t *clientFacts) closing(e history.Event) bool {
	return slices.ContainsFunc(t.sent, func(a history.Event) bool { return a.Who == e.Who && a.At <= e.At })
}

// others reports whether an attachment was granted to a client other than who.
func (t *clientFacts) others(attachment uint64, who string) bool {
	return slices.ContainsFunc(t.grants, func(g history.Event) bool {
		return g.Attachment == attachment && g.Who != who
	})
}

// nodeFacts are nodes' acts on a session. Its lists are in the order of time.
type nodeFacts struct {
	timeout time.Duration
	// applied are the opens and moves that nodes applied, ends the ends.
	applied, ends []history.Event
	// decided are leaders' decisions to expire it.
	decided []history.Event
	// end is the first of ends, nil if there is none.
	end *history.Event
}

// apply records what a node did.
func (d *nodeFacts) apply(e history.Event) {
	if e.Timeout != 0 {
		d.timeout = e.Timeout
	}
	if e.Kind != history.AppliedEnd {
		d.applied = append(d.applied, e)
		return
	}
	d.ends = append(d.ends, e)
	if d.end == nil {
		d.end = &e
	}
}

// made returns the first time that a node applied the open or the move that made an attachment.
func (d *nodeFacts) made(attachment uint64) (history.Event, bool) {
	for _, a := range d.applied {
		if a.Attachment == attachment {
			return a, true
		}
	}
	return history.Event{}, false
}

// expired returns when the session's expiry was first applied.
func (d *nodeFacts) expired() (time.Duration, bool) {
	if d.end == nil || d.end.Cause != session.CauseExpired {
		return 0, false
	}
	return d.end.At, true
}

// extension is by how much a touch moves the deadline (T5 a touch moves the deadline).
func (d *nodeFacts) extension() time.Duration { return d.timeout + d.timeout/200 }

// decision returns the first and the last decision of a term about an attachment by the time the session ended.
func (d *nodeFacts) decision(term, attachment uint64) (first, last history.Event, ok bool) {
	for _, e := range d.decided {
		if e.Term != term || e.Attachment != attachment || e.At > d.end.At {
			continue
		}
		if !ok {
			first = e
		}
		last, ok = e, true
	}
	return first, last, ok
}
