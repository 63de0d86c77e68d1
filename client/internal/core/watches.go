package core

import (
	"cmp"
	"maps"
	"slices"

	"holdfast/tree"
)

// watching handles what nodes tell watches.
type watching struct{ links }

// Watch is a watch of an application.
type Watch struct {
	// Handle is the application's.
	Handle any
	Spec   tree.WatchSpec
	// from is the stamp above which it hears of changes.
	from tree.Stamp
}

// watches are those of a client. A node has one of each path and kind, however many the application has.
type watches struct {
	all map[tree.WatchSpec]*watched
	// recursive counts those of this kind.
	recursive int
	// on is the connection that has them, or is being asked for them.
	on *Conn
	// live: this connection watches something.
	live bool
	// queue are those to ask for.
	queue []*watched
	// told is the stamp to come back from (V4). While owing watches of a former connection wait for the answer of this
	// one, it stays, and pending collects what the node tells.
	told, pending tree.Stamp
	owing         int
	// back is the question for what is owed; nil when there is none. One is asked at a time, and new watches are asked
	// for when there is none: otherwise the old events of some would come to others, which have had them.
	back *watchBody
}

// watched is what a node is asked to watch.
type watched struct {
	spec tree.WatchSpec
	// subs hear of it, news will once the node has answered.
	subs, news []*Watch
	// asking: the question is out. placed: the node watches. owed: a former node did, and this one has not answered.
	// queued: the question waits.
	queued, asking, placed, owed bool
	// again: it has fired while it was asked for, so it is asked for again.
	again bool
	// top is the stamp of the newest event, and had are the events of this stamp: V4 may bring them twice. lost is the
	// stamp of the newest LOST: what lies in that does not come behind it.
	top, lost tree.Stamp
	had       []tree.Event
	// mixed: other watches are placed, and hear of new events while this one is owed old ones.
	mixed bool
	// replay are the events that came while it was owed. The node's answer says that they are complete up to came.
	replay []tree.Event
	came   tree.Stamp
	lostAt tree.Stamp
	// anew: the subs are to be told that events are lost, because the cluster is another one.
	anew bool
	// last is why a node did not watch, while none does.
	last error
}

// Heard is what a watch hears: an event, or else a mark.
type Heard struct {
	Watch *Watch
	Event tree.Event
	// Started, Lost: the mark, with the stamp of Event alone. Reason is why events are lost, nil if the watch was away for
	// too long.
	Started, Lost bool
	Reason        error
	// Err is why the watch has ended.
	Err error
}

// AddWatch begins a watch.
type AddWatch struct{ Watch *Watch }

// DropWatch ends a watch, which hears nothing any more.
type DropWatch struct{ Watch *Watch }

func (in AddWatch) happen(c *Core) {
	c.trees()
	e := c.watchedAt(in.Watch.Spec)
	e.news = append(e.news, in.Watch)
	c.forest.watches.ask(e)
}

func (in DropWatch) happen(c *Core) {
	if c.forest == nil {
		return
	}
	e := c.forest.watches.all[in.Watch.Spec]
	if e == nil {
		return
	}
	is := func(w *Watch) bool { return w == in.Watch }
	e.subs, e.news = slices.DeleteFunc(e.subs, is), slices.DeleteFunc(e.news, is)
	if len(e.subs)+len(e.news) > 0 {
		return
	}
	c.forest.watches.forget(e)
	if e.placed || e.asking {
		c.unwatch(c.forest.watches.on, e.spec)
	}
}

// unwatch has a node drop a spec that nobody watches any more, unless a read is about to set it anew.
func (q *requests) unwatch(c *Conn, spec tree.WatchSpec) {
	specs := slices.DeleteFunc(q.forest.watches.atNode(spec), q.forest.readWaitsFor)
	if c != nil && c == q.cur && len(specs) > 0 {
		q.beside(c, &unwatchBody{specs})
	}
}

// watchUnwanted handles a watch that was set by a read whose caller had given up. An entry that is gone for good never
// fires it: the node would keep it as long as the connection lasts.
func (a *watching) watchUnwanted(c *Conn, call *TreeCall, found tree.Answer) {
	for _, kind := range []tree.WatchKind{call.Query.WatchKind(), kindSet(call.Query, found)} {
		if a.forest.watches.all[tree.WatchSpec{Path: call.Query.Path, Kind: kind}] != nil {
			return
		}
	}
	a.unwatch(c, tree.WatchSpec{Path: call.Query.Path, Kind: kindSet(call.Query, found)})
}

// readWaitsFor reports whether a read that is under way sets a watch that the node keeps as spec. A removal would take
// that out as well. If the read does not set it after all, it fires once for nobody.
func (f *forest) readWaitsFor(spec tree.WatchSpec) bool {
	for call := range f.calls {
		if call.Watch == nil || call.settled || call.Query.Path != spec.Path {
			continue
		}
		switch kind := call.Query.WatchKind(); {
		case kind == spec.Kind, kind == tree.WatchExists && spec.Kind == tree.WatchData:
			return true
		}
	}
	return false
}

// watchedAt returns the entry of a spec.
func (l *ledger) watchedAt(spec tree.WatchSpec) *watched {
	w := &l.forest.watches
	e := w.all[spec]
	if e == nil {
		e = &watched{spec: spec}
		w.all[spec] = e
		if spec.Kind == tree.WatchRecursive {
			w.recursive++
		}
	}
	return e
}

// ask has a node asked for e, unless it will be.
func (w *watches) ask(e *watched) {
	if !e.asking && !e.queued {
		e.queued = true
		if len(w.queue) > 2*len(w.all) { // while no node is in reach, nothing else takes out those that were dropped
			w.queue = slices.DeleteFunc(w.queue, func(e *watched) bool { return !e.wanted() })
		}
		w.queue = append(w.queue, e)
	}
}

// waits reports whether the node of c has to be asked for any: a new connection has to be asked for all.
func (w *watches) waits(c *Conn) bool { return len(w.queue) > 0 || len(w.all) > 0 && w.on != c }

// forget takes e out.
func (w *watches) forget(e *watched) {
	if w.all[e.spec] != e {
		return
	}
	delete(w.all, e.spec)
	if e.spec.Kind == tree.WatchRecursive {
		w.recursive--
	}
	w.settled(e)
	if len(w.all) == 0 { // nothing is owed any more
		if w.on != nil {
			w.on.watched = false
		}
		w.told, w.pending, w.owing = 0, 0, 0
	}
}

// settled notes that nothing of a former connection is owed to e any more.
func (w *watches) settled(e *watched) {
	if !e.owed {
		return
	}
	e.owed = false
	if w.owing--; w.owing == 0 {
		w.told = max(w.told, w.pending)
	}
}

// sorted returns all in the order of their paths.
func (w *watches) sorted() []*watched {
	return slices.SortedFunc(maps.Values(w.all), func(x, y *watched) int {
		return cmp.Or(cmp.Compare(x.spec.Path, y.spec.Path), cmp.Compare(x.spec.Kind, y.spec.Kind))
	})
}

// atNode returns what a node may have registered for a spec: an exists watch of an entry is a data watch there (V4).
func (w *watches) atNode(spec tree.WatchSpec) []tree.WatchSpec {
	data := tree.WatchSpec{Path: spec.Path, Kind: tree.WatchData}
	if spec.Kind != tree.WatchExists || w.all[data] != nil {
		return []tree.WatchSpec{spec}
	}
	return []tree.WatchSpec{spec, data}
}

// moveTo begins anew on a connection: the node is asked for all, and told what was told before.
func (w *watches) moveTo(c *Conn) {
	w.on, w.pending, w.owing, w.live, w.back, w.queue = c, 0, 0, false, nil, w.sorted()
	for _, e := range w.queue {
		e.owed = e.owed || e.placed
		e.queued, e.placed, e.asking, e.again, e.replay = true, false, false, false, nil
		if e.owed {
			w.owing++
		}
	}
}

// tendWatches asks the present node for the watches that it does not have.
func (q *requests) tendWatches() {
	w, c := &q.forest.watches, q.cur
	if len(w.all) == 0 || c == nil || !c.up || !w.waits(c) || !q.knowsState(c) {
		return
	}
	if w.on != c {
		w.moveTo(c)
	}
	for b := w.next(); b != nil; b = w.next() {
		q.beside(c, b)
	}
}

// maxWatchBytes is about what the paths of a question have at most: the longest ones of [tree.MaxWatches] are more than
// a node takes in one message, and it would end each stream that brings them.
const maxWatchBytes = 256 << 10

// next takes the next question out of the queue: first watches that are owed something, and others when none is. It
// returns nil when there is none, or while the answer about those that are owed something is awaited.
func (w *watches) next() *watchBody {
	if w.back != nil && (w.back.out || w.back.Wanted()) {
		return nil
	}
	w.back = nil
	w.queue = slices.DeleteFunc(w.queue, func(e *watched) bool { return !e.wanted() })
	if len(w.queue) == 0 {
		return nil
	}
	b := &watchBody{owed: slices.ContainsFunc(w.queue, (*watched).isOwed)}
	if b.owed {
		w.back = b
	}
	bytes := 0
	w.queue = slices.DeleteFunc(w.queue, func(e *watched) bool {
		taken := e.owed == b.owed && len(b.entries) < tree.MaxWatches && bytes < maxWatchBytes
		if taken {
			bytes += len(e.spec.Path)
			b.entries = append(b.entries, e)
			e.queued, e.asking, e.mixed = false, true, w.live
		}
		return taken
	})
	return b
}

// behind reports whether c may still tell what a former connection has missed: also for a watch that has ended since.
// Until then nothing is asked whose answer may show a later change (I13).
func (w *watches) behind(c *Conn) bool {
	return w.owing > 0 || w.on == c && w.back != nil && w.back.out
}

// endWatches ends all watches of an entry with an error.
func (l *ledger) endWatches(e *watched, err error) {
	e.news, e.subs = append(e.subs, e.news...), nil
	l.endNews(e, err)
	l.forest.watches.forget(e)
}

// endNews ends the watches of an entry that no node has begun.
func (l *ledger) endNews(e *watched, err error) {
	for _, s := range e.news {
		l.hear(s, Heard{Err: err})
	}
	e.news = nil
}
