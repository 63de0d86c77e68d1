package tree

import (
	"slices"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// watchBody asks a node to watch.
type watchBody struct {
	m       *Manager
	entries []*entry
	// catchingUp: the entries catch up, and the question names the stamp to continue from.
	catchingUp bool
	inFlight   bool
	lagged     int // how often a node was behind
}

// Wanted is false once all entries have lost their watchers.
func (b *watchBody) Wanted() bool { return slices.ContainsFunc(b.entries, (*entry).wanted) }

// Message names the stamp from which to continue watches of a former node. A read-only node watches for a client that
// allows that: it delivers the changes that have reached it, and the next node continues above them (V4 resumed
// watches).
func (b *watchBody) Message(seq uint64) *holdfastv1.ClientMessage {
	b.inFlight = true
	conns := b.m.conns
	a := tree.Addition{Options: tree.ReadOptions{
		Seen: conns.Stamp(), AllowStale: conns.ReadOnly(conns.Current()),
	}}
	for _, e := range b.entries {
		if !e.wanted() {
			continue
		}
		a.Watches = append(a.Watches, e.spec)
	}
	if b.catchingUp {
		a.Since = b.m.watches.since
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_AddWatches{
		AddWatches: wire.AdditionProto(seq, a),
	}}
}

// unwatchBody asks a node to watch no more.
type unwatchBody struct{ specs []tree.WatchSpec }

// Wanted is true.
func (b *unwatchBody) Wanted() bool { return true }

// Message names the specs.
func (b *unwatchBody) Message(seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_RemoveWatches{
		RemoveWatches: wire.RemovalProto(seq, b.specs),
	}}
}

// watchesAdded begins the watches of a question. Events that a former connection missed came before the answer (G1
// order per connection).
func (m *Manager) watchesAdded(c *conn.Conn, b *watchBody, answer *holdfastv1.WatchesAdded) {
	w, stamp := &m.watches, tree.Stamp(answer.GetStamp())
	b.inFlight = false
	m.DeliveredUpTo(c, stamp)
	if w.on != c {
		return
	}
	c.Watched = true
	if w.live = true; w.since == 0 && len(w.all) > 0 { // they may have ended before the answer
		w.since = stamp // these are the first watches, so no event was missed
	}
	if w.catchUp == b {
		w.catchUp = nil
	}
	for _, e := range b.entries {
		if w.all[e.spec] == e {
			m.place(e, stamp)
		}
	}
	if b.catchingUp && !slices.ContainsFunc(w.queue, (*entry).isCatchingUp) {
		m.finishCatchUp()
	}
}

// place records that the node watches e since a stamp.
func (m *Manager) place(e *entry, stamp tree.Stamp) {
	e.last = nil
	if e.pending = false; e.askAgain {
		e.askAgain = false
		m.watches.ask(e)
		return
	}
	e.placed = true
	if e.otherCluster {
		e.otherCluster = false
		for _, s := range e.active {
			s.from = stamp
			m.deliver(s, Delivery{
				Event: tree.Event{Stamp: stamp}, Lost: true, Reason: session.ErrClusterChanged,
			})
		}
	}
	if e.catchingUp {
		e.replay, e.completeTo = e.missed(), stamp
	}
	for _, s := range e.starting {
		s.from = stamp
		m.deliver(s, Delivery{Event: tree.Event{Stamp: stamp}, Started: true})
	}
	e.active, e.starting = append(e.active, e.starting...), nil
}

// finishCatchUp delivers the missed events to all watches, once the node has answered for all of them: an event for one
// watch may also belong to others.
func (m *Manager) finishCatchUp() {
	w := &m.watches
	for _, e := range w.sorted() {
		if e.catchingUp && e.placed {
			m.deliverReplay(e)
			w.caughtUp(e)
		}
	}
}

// watchRefused handles a node's refusal to watch.
func (m *Manager) watchRefused(c *conn.Conn, r *window.Request, b *watchBody, err error) {
	w := &m.watches
	b.inFlight = false
	if w.on != c {
		return
	}
	verdict := route.Classify(err)
	if verdict != route.Final {
		for _, e := range b.entries {
			e.last = err
		}
		m.conns.Retry(c, r, err)
		if b.lagged++; verdict == route.Elsewhere && b.lagged%maxLagged == 0 {
			m.conns.Leave(c, err)
		}
		return
	}
	for _, e := range b.entries {
		switch {
		case w.all[e.spec] != e:
		case e.placed: // the node keeps the active watches
			e.pending = false
			m.endStarting(e, err)
			if !e.wanted() { // the active watches were dropped meanwhile
				w.forget(e)
				m.unwatch(c, e.spec)
			}
		default:
			m.endWatches(e, err)
		}
	}
	if w.catchUp == b {
		w.catchUp = nil
	}
}

// watchSet starts the one-shot watch that a read has set (G2 atomic reads).
func (m *Manager) watchSet(c *conn.Conn, call *Call, found tree.Answer) {
	w := &m.watches
	one := call.Watch
	one.Spec, one.from = tree.WatchSpec{Path: call.Query.Path, Kind: kindSet(call.Query, found)}, found.Stamp
	e := w.entryOf(one.Spec)
	e.active = append(e.active, one)
	if w.since == 0 {
		w.since = found.Stamp
	}
	if w.on != c { // the first watch
		w.moveTo(c)
	}
	if w.live, c.Watched = true, true; !e.catchingUp {
		w.queue = slices.DeleteFunc(w.queue, func(one *entry) bool { return one == e })
		e.queued, e.placed = false, true
	}
	m.deliver(one, Delivery{Event: tree.Event{Stamp: found.Stamp}, Started: true})
}
