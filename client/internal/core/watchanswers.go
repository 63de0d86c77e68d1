package core

import (
	"slices"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// watchBody asks a node to watch.
type watchBody struct {
	entries []*watched
	owed    bool
	// out: it was sent, and is not answered.
	out    bool
	lagged int
}

// Wanted is false once nobody watches any of them.
func (b *watchBody) Wanted() bool { return slices.ContainsFunc(b.entries, (*watched).wanted) }

func (e *watched) wanted() bool { return len(e.subs)+len(e.news) > 0 }

func (e *watched) isOwed() bool { return e.owed }

// message names the stamp to come back from for watches that a former node had. A read-only node watches for a client
// that allows it: it tells what has come to it, and the next node tells what is above that (V4).
func (b *watchBody) message(l *ledger, seq uint64) *holdfastv1.ClientMessage {
	b.out = true
	a := tree.Addition{Options: tree.ReadOptions{Seen: l.effects.Stamp, AllowStale: l.readOnly(l.cur)}}
	for _, e := range b.entries {
		if !e.wanted() {
			continue
		}
		a.Watches = append(a.Watches, e.spec)
	}
	if b.owed {
		a.Since = l.forest.watches.told
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{
		AddWatches: wire.AdditionProto(seq, a),
	}}
}

// unwatchBody asks a node to watch no more.
type unwatchBody struct{ specs []tree.WatchSpec }

// Wanted is true.
func (b *unwatchBody) Wanted() bool { return true }

func (b *unwatchBody) message(_ *ledger, seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_RemoveWatches{
		RemoveWatches: wire.RemovalProto(seq, b.specs),
	}}
}

// watchesAdded begins what was asked for. Events that a former connection missed came before the answer (G1).
func (a *watching) watchesAdded(c *Conn, b *watchBody, m *holdfastv1.WatchesAdded) {
	w, stamp := &a.forest.watches, tree.Stamp(m.GetStamp())
	b.out = false
	a.toldUpTo(c, stamp)
	if w.on != c {
		return
	}
	c.watched = true
	if w.live = true; w.told == 0 {
		w.told = stamp // no watch was before, so nothing was owed
	}
	if w.back == b {
		w.back = nil
	}
	for _, e := range b.entries {
		if w.all[e.spec] != e {
			continue
		}
		e.last = nil
		if e.asking = false; e.again {
			e.again = false
			w.ask(e)
			continue
		}
		e.placed = true
		if e.anew {
			e.anew = false
			a.hearAnew(e, stamp)
		}
		if e.owed {
			e.replay, e.came = e.missed(), stamp
		}
		for _, s := range e.news {
			s.from = stamp
			a.hear(s, Heard{Event: tree.Event{Stamp: stamp}, Started: true})
		}
		e.subs, e.news = append(e.subs, e.news...), nil
	}
	if b.owed && !slices.ContainsFunc(w.queue, (*watched).isOwed) {
		a.comeBack()
	}
}

// hearAnew tells lasting watches of a former cluster that they are in place in the present one.
func (a *watching) hearAnew(e *watched, stamp tree.Stamp) {
	for _, s := range e.subs {
		s.from = stamp
		a.hear(s, Heard{Event: tree.Event{Stamp: stamp}, Lost: true, Reason: session.ErrClusterChanged})
	}
}

// comeBack tells all watches what they were owed, once the node has answered for all: what it tells one comes to
// others, too.
func (a *watching) comeBack() {
	w := &a.forest.watches
	for _, e := range w.sorted() {
		if e.owed && e.placed {
			a.cameBack(e)
			w.settled(e)
		}
	}
}

// watchRefused handles a node's refusal to watch.
func (a *watching) watchRefused(c *Conn, r *window.Request, b *watchBody, err error) {
	b.out = false
	if a.forest.watches.on != c {
		return
	}
	verdict := route.Judge(err)
	if verdict != route.Final {
		for _, e := range b.entries {
			e.last = err
		}
		a.pause(c, r, err)
		if b.lagged++; verdict == route.Elsewhere && b.lagged%maxLagged == 0 {
			a.leave(c, err)
		}
		return
	}
	for _, e := range b.entries {
		switch {
		case a.forest.watches.all[e.spec] != e:
		case e.placed: // the node goes on telling it
			e.asking = false
			a.endNews(e, err)
		default:
			a.endWatches(e, err)
		}
	}
	if a.forest.watches.back == b {
		a.forest.watches.back = nil
	}
}

// watchSet begins the one-shot that a read has set (G2).
func (a *watching) watchSet(c *Conn, call *TreeCall, found tree.Answer) {
	w := &a.forest.watches
	one := call.Watch
	one.Spec, one.from = tree.WatchSpec{Path: call.Query.Path, Kind: kindSet(call.Query, found)}, found.Stamp
	e := a.watchedAt(one.Spec)
	e.subs = append(e.subs, one)
	if w.told == 0 {
		w.told = found.Stamp
	}
	if w.on != c { // the first watch
		w.moveTo(c)
	}
	if w.live, c.watched = true, true; !e.owed {
		w.queue = slices.DeleteFunc(w.queue, func(one *watched) bool { return one == e })
		e.queued, e.placed = false, true
	}
	a.hear(one, Heard{Event: tree.Event{Stamp: found.Stamp}, Started: true})
}
