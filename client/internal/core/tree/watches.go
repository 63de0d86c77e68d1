package tree

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"holdfast/client/internal/core/conn"
	"holdfast/session"
	"holdfast/tree"
)

// Watch is a watch of an application.
type Watch struct {
	// Handle is the application's.
	Handle any
	Spec   tree.WatchSpec
	// from is the stamp above which the watch receives changes.
	from tree.Stamp
}

// Delivery is what a watch receives: an event, or a mark.
type Delivery struct {
	Watch *Watch
	Event tree.Event
	// Started, Lost: the mark, with only the stamp of Event. Reason is why events are lost, nil if the watch was away
	// for too long.
	Started, Lost bool
	Reason        error
	// Err is why the watch has ended.
	Err error
}

// watches are the watches of a client. A node has one watch of each path and kind, however many the application has.
type watches struct {
	all map[tree.WatchSpec]*entry
	// recursive counts the recursive entries.
	recursive int
	// on is the connection that has the watches, or has the request for them.
	on *conn.Conn
	// live: this connection has a watch.
	live bool
	// queue are the entries to ask for.
	queue []*entry
	// since is the stamp up to which events were delivered, from which a new node continues (V4). While entries catch
	// up, since stays, and pending collects the stamps that the node reports.
	since, pending tree.Stamp
	// catchingUp counts the entries with that flag.
	catchingUp int
	// catchUp is the pending question for the entries that catch up; nil for none. New watches wait for its answer:
	// otherwise old events of some entries would reach entries that have received them.
	catchUp *watchBody
}

// entry is a watch that a node has or should have.
type entry struct {
	spec tree.WatchSpec
	// active receive events. starting will, once the node has answered.
	active, starting []*Watch
	// queued: the question waits. pending: the node has the question. placed: the node watches.
	queued, pending, placed bool
	// catchingUp: a former node watched, and the present node has not delivered the missed events.
	catchingUp bool
	// askAgain: the entry fired while its question was pending.
	askAgain bool
	// newest is the stamp of the newest event, and delivered are the events of this stamp: a node that continues may
	// deliver them again (V4 resumed watches). lost is the stamp of the newest LOST: events up to it are no longer
	// delivered.
	newest, lost tree.Stamp
	delivered    []tree.Event
	// mixed: other entries are placed, and receive new events while this entry catches up with old events.
	mixed bool
	// replay are the events that arrived while the entry catches up. They are complete up to the stamp completeTo,
	// which the node's answer names. replayLost is the stamp of a LOST among them.
	replay     []tree.Event
	completeTo tree.Stamp
	replayLost tree.Stamp
	// otherCluster: the active watches must receive a LOST, because the cluster is another one.
	otherCluster bool
	// last is why no node watches.
	last error
}

func (e *entry) wanted() bool { return len(e.active)+len(e.starting) > 0 }

func (e *entry) isCatchingUp() bool { return e.catchingUp }

// receives reports whether an event of the present node may be for e: the node watches, or delivers what e missed.
func (e *entry) receives() bool { return e.placed || e.catchingUp && e.pending }

// AddWatch begins a watch.
func (m *Manager) AddWatch(w *Watch) {
	e := m.watches.entryOf(w.Spec)
	e.starting = append(e.starting, w)
	m.watches.ask(e)
}

// DropWatch ends a watch, which receives nothing any more.
func (m *Manager) DropWatch(w *Watch) {
	e := m.watches.all[w.Spec]
	if e == nil {
		return
	}
	is := func(other *Watch) bool { return other == w }
	e.active, e.starting = slices.DeleteFunc(e.active, is), slices.DeleteFunc(e.starting, is)
	if e.wanted() {
		return
	}
	m.watches.forget(e)
	if e.placed || e.pending {
		m.unwatch(m.watches.on, e.spec)
	}
}

// GiveUpWatch ends a watch whose reader stops waiting because of cause. The watch receives the cause, and its obstacle
// if the watch was not in place.
func (m *Manager) GiveUpWatch(w *Watch, cause error) {
	e := m.watches.all[w.Spec]
	switch {
	case e == nil:
		return
	case slices.Contains(e.starting, w):
		m.deliver(w, Delivery{Err: errors.Join(cause, m.obstacle(cause, e.last))})
	case slices.Contains(e.active, w):
		m.deliver(w, Delivery{Err: cause})
	}
	m.DropWatch(w)
}

// unwatch makes a node drop a spec without watchers, unless a read is about to set it again.
func (m *Manager) unwatch(c *conn.Conn, spec tree.WatchSpec) {
	specs := slices.DeleteFunc(m.watches.atNode(spec), m.readSets)
	if c != nil && c == m.conns.Current() && len(specs) > 0 {
		m.conns.SendDirect(c, &unwatchBody{specs})
	}
}

// watchUnwanted removes a watch that was set by a read whose caller had given up. If the entry is gone for good, the
// watch never fires: the node would keep it as long as the connection lasts.
func (m *Manager) watchUnwanted(c *conn.Conn, call *Call, found tree.Answer) {
	for _, kind := range []tree.WatchKind{call.Query.WatchKind(), kindSet(call.Query, found)} {
		if m.watches.all[tree.WatchSpec{Path: call.Query.Path, Kind: kind}] != nil {
			return
		}
	}
	m.unwatch(c, tree.WatchSpec{Path: call.Query.Path, Kind: kindSet(call.Query, found)})
}

// readSets reports whether a pending read sets a watch that the node keeps as spec. A removal would remove that watch
// as well. If the read does not set the watch after all, the leftover watch fires once without a receiver.
func (m *Manager) readSets(spec tree.WatchSpec) bool {
	for call := range m.calls {
		if call.Watch == nil || call.answered || call.Query.Path != spec.Path {
			continue
		}
		switch kind := call.Query.WatchKind(); {
		case kind == spec.Kind, kind == tree.WatchExists && spec.Kind == tree.WatchData:
			return true
		}
	}
	return false
}

// entryOf returns the entry of a spec, which the first call makes.
func (w *watches) entryOf(spec tree.WatchSpec) *entry {
	e := w.all[spec]
	if e == nil {
		e = &entry{spec: spec}
		w.all[spec] = e
		if spec.Kind == tree.WatchRecursive {
			w.recursive++
		}
	}
	return e
}

// ask queues the question for e, unless it is queued or pending.
func (w *watches) ask(e *entry) {
	if e.pending || e.queued {
		return
	}
	e.queued = true
	if len(w.queue) > 2*len(w.all) { // while no node is in reach, nothing else removes the dropped entries
		w.queue = slices.DeleteFunc(w.queue, func(e *entry) bool { return !e.wanted() })
	}
	w.queue = append(w.queue, e)
}

// waits reports whether the node of c needs a request: a new connection needs requests for all entries.
func (w *watches) waits(c *conn.Conn) bool { return len(w.queue) > 0 || len(w.all) > 0 && w.on != c }

// forget removes an entry.
func (w *watches) forget(e *entry) {
	if w.all[e.spec] != e {
		return
	}
	delete(w.all, e.spec)
	if e.spec.Kind == tree.WatchRecursive {
		w.recursive--
	}
	w.caughtUp(e)
	if len(w.all) == 0 { // nothing is left to continue
		if w.on != nil {
			w.on.Watched = false
		}
		w.since, w.pending, w.catchingUp = 0, 0, 0
	}
}

// caughtUp records that e has received everything that a former connection had not delivered.
func (w *watches) caughtUp(e *entry) {
	if !e.catchingUp {
		return
	}
	e.catchingUp = false
	if w.catchingUp--; w.catchingUp == 0 {
		w.since = max(w.since, w.pending)
	}
}

// sorted returns all entries in the order of their paths.
func (w *watches) sorted() []*entry {
	return slices.SortedFunc(maps.Values(w.all), func(x, y *entry) int {
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

// moveTo restarts the watches on a connection: its node receives requests for all entries, and continues where the
// former node was.
func (w *watches) moveTo(c *conn.Conn) {
	w.on, w.pending, w.catchingUp, w.live, w.catchUp, w.queue = c, 0, 0, false, nil, w.sorted()
	for _, e := range w.queue {
		e.catchingUp = e.catchingUp || e.placed
		e.queued, e.placed, e.pending, e.askAgain, e.replay = true, false, false, false, nil
		if e.catchingUp {
			w.catchingUp++
		}
	}
}

// ClusterChanged restarts all watches. The node has none of them yet. Lasting watches receive a LOST once the node has
// them: a read of the application then misses no change. One-shot watches end: stamps of another cluster cannot show
// whether their change has happened.
func (m *Manager) ClusterChanged() {
	w := &m.watches
	w.on, w.since, w.pending, w.catchingUp, w.catchUp = nil, 0, 0, 0, nil
	for _, e := range w.sorted() {
		*e = entry{
			spec: e.spec, active: e.active, starting: e.starting, last: e.last,
			otherCluster: e.otherCluster || e.placed || e.catchingUp,
		}
		if e.spec.Kind.OneShot() {
			m.endWatches(e, session.ErrClusterChanged)
		}
	}
}

// sendWatches asks the current node for the watches that it does not have.
func (m *Manager) sendWatches() {
	w, c := &m.watches, m.conns.Current()
	if len(w.all) == 0 || c == nil || !c.Up() || !w.waits(c) || !m.knowsState(c) {
		return
	}
	if w.on != c {
		w.moveTo(c)
	}
	for b := m.nextQuestion(); b != nil; b = m.nextQuestion() {
		m.conns.SendDirect(c, b)
	}
}

// maxWatchBytes is about the size limit of the paths in a question: the longest paths of [tree.MaxWatches] exceed what
// a node accepts in one message, and the node would end each stream with such a message.
const maxWatchBytes = 256 << 10

// nextQuestion removes the next question from the queue: first the entries that catch up, then the others. It returns
// nil if the queue is empty, or while the answer about the entries that catch up is pending.
func (m *Manager) nextQuestion() *watchBody {
	w := &m.watches
	if w.catchUp != nil && (w.catchUp.inFlight || w.catchUp.Wanted()) {
		return nil
	}
	w.catchUp = nil
	w.queue = slices.DeleteFunc(w.queue, func(e *entry) bool { return !e.wanted() })
	if len(w.queue) == 0 {
		return nil
	}
	b := &watchBody{m: m, catchingUp: slices.ContainsFunc(w.queue, (*entry).isCatchingUp)}
	if b.catchingUp {
		w.catchUp = b
	}
	bytes := 0
	w.queue = slices.DeleteFunc(w.queue, func(e *entry) bool {
		fits := e.catchingUp == b.catchingUp && len(b.entries) < tree.MaxWatches && bytes < maxWatchBytes
		if fits {
			bytes += len(e.spec.Path)
			b.entries = append(b.entries, e)
			e.queued, e.pending, e.mixed = false, true, w.live
		}
		return fits
	})
	return b
}

// catchesUpOn reports whether c may still deliver what a former connection has missed: also for a watch that has ended
// since. Until then the client asks nothing whose answer may show a later change (I13 no step back).
func (w *watches) catchesUpOn(c *conn.Conn) bool {
	return w.catchingUp > 0 || w.on == c && w.catchUp != nil && w.catchUp.inFlight
}

// endWatches ends all watches of an entry with an error.
func (m *Manager) endWatches(e *entry, err error) {
	e.starting, e.active = append(e.active, e.starting...), nil
	m.endStarting(e, err)
	m.watches.forget(e)
}

// endStarting ends the watches of an entry that no node has begun.
func (m *Manager) endStarting(e *entry, err error) {
	for _, w := range e.starting {
		m.deliver(w, Delivery{Err: err})
	}
	e.starting = nil
}

// deliver adds a delivery to a watch.
func (m *Manager) deliver(w *Watch, d Delivery) {
	d.Watch = w
	m.Effects.Deliveries = append(m.Effects.Deliveries, d)
}
