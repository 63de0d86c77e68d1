package dispatch_test

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/tree/writers"
	"holdfast/watch"
)

type noDigest struct{}

func (noDigest) Add([]byte)    {}
func (noDigest) Remove([]byte) {}

var root = []tree.Principal{{Scheme: tree.Super}}

// result is the kept form of a result in these tests: the write's own stamp.
func result(own tree.Stamp) []byte { return binary.BigEndian.AppendUint64(nil, uint64(own)) }

func ownStamp(result []byte) tree.Stamp { return tree.Stamp(binary.BigEndian.Uint64(result)) }

// writer is what the state keeps of a session's writes: all results.
type writer struct {
	attachment uint64
	results    [][]byte // of the numbers from 1 on
}

// kept is the writers as of an entry.
type kept map[uint64]writer

func (k kept) Writer(id uint64) (writers.Writer, bool) {
	w, ok := k[id]
	return writers.Writer{Applied: uint64(len(w.results))}, ok
}

func (k kept) Result(id, number uint64) ([]byte, bool) {
	w := k[id]
	if number == 0 || number > uint64(len(w.results)) || number%7 == 0 { // a seventh is gone
		return nil, false
	}
	return w.results[number-1], true
}

// world is a node with a tree, a log that is applied to it, dispatchers, and clients.
type world struct {
	t           *testing.T
	random      *rand.Rand
	tree        *store.Tree
	index       uint64
	kept        kept
	hub         *dispatch.Hub
	shared      dispatch.Shared
	dispatchers []*dispatch.Dispatcher
	jobs        []dispatch.Job

	// What the log has done, for the checker.
	roots   map[uint64]*store.Root
	before  map[tree.Stamp]*store.Root // before writes that reads came before
	changes []tree.Change
	written []tree.Stamp                // where writes were applied, with or without effect
	at      map[forwardedKey]tree.Stamp // where writes took effect

	queue   []pending.Write // what the node's queue has, in order
	clients []*client
	now     time.Time
	ring    watch.RingLimits
	narrow  bool // the memory for answers is small
	// restored has the dispatchers that have not passed since a snapshot was restored.
	restored map[*dispatch.Dispatcher]bool
}

type forwardedKey struct {
	id         session.ID
	number     uint64
	attachment uint64
}

func newWorld(t *testing.T, random *rand.Rand, limits dispatch.Limits, ring watch.RingLimits) *world {
	t.Helper()
	w := &world{
		t: t, random: random, tree: store.New(noDigest{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(1, 1)}),
		ring: ring, narrow: limits.Unsent < dispatch.DefaultLimits().Unsent, restored: map[*dispatch.Dispatcher]bool{}, index: 1, kept: kept{}, roots: map[uint64]*store.Root{},
		before: map[tree.Stamp]*store.Root{},
		at:     map[forwardedKey]tree.Stamp{}, now: time.Unix(1, 0),
	}
	w.hub = dispatch.NewHub(dispatch.HubLimits{Changes: ring, Sessions: ring, Results: ring}, w.published())
	w.shared = dispatch.Shared{
		Hub: w.hub, Writes: w, Budgets: dispatch.DefaultBudgets(),
	}
	w.shared.Queued = fair.NewBudget[string](1 << 20)
	for range 2 {
		w.dispatchers = append(w.dispatchers, dispatch.New(w.shared, limits, func() {}))
	}
	return w
}

// published freezes the state.
func (w *world) published() dispatch.State {
	frozen := w.tree.Freeze()
	w.roots[w.index] = frozen
	return dispatch.State{Index: w.index, Founded: true, Root: frozen, Writers: maps.Clone(w.kept)}
}

// Accept is the node's queue: it refuses now and then, and then what comes behind that.
func (w *world) Accept(f *pending.Write) error {
	c := w.clientOf(f.Session, f.Attachment)
	if f.Number != c.accepted+1 {
		return &tree.GapError{Expected: c.accepted + 1}
	}
	if w.random.IntN(10) == 0 {
		return &session.LimitError{Name: "writes", Limit: "0"}
	}
	c.accepted = f.Number
	w.queue = append(w.queue, *f)
	return nil
}

func (w *world) Refused(*pending.Write) {}

func (w *world) Repeated(*pending.Write) {}

func (w *world) clientOf(id session.ID, attachment uint64) *client {
	for _, c := range w.clients {
		if c.id == id && c.attachment == attachment {
			return c
		}
	}
	w.t.Fatalf("no client has session %v with attachment %d", id, attachment)
	return nil
}

var paths = []string{"/a", "/a/b", "/a/b/c", "/d", "/d/e"}

func (w *world) path() string { return paths[w.random.IntN(len(paths))] }

// apply applies an entry, and notifies the hub.
func (w *world) apply() {
	changes, wrote := w.entry()
	w.hub.Applied(w.published(), changes, wrote)
}

// entry applies an entry of up to five commands.
func (w *world) entry() ([]tree.Change, []pending.Outcome) {
	w.index++
	var changes []tree.Change
	var wrote []pending.Outcome
	for position := 1; position <= 1+w.random.IntN(5); position++ {
		at := store.At{Stamp: tree.StampAt(w.index, position), Session: 1, Principals: root}
		switch n := w.random.IntN(10); {
		case n < 5 && len(w.queue) > 0:
			f := w.queue[0]
			w.queue = w.queue[1:]
			more, one := w.write(at, f)
			changes, wrote = append(changes, more...), append(wrote, one)
			if w.random.IntN(3) == 0 && position < 5 { // a copy of it in the same entry
				position++
				_, again := w.write(store.At{Stamp: tree.StampAt(w.index, position)}, f)
				wrote = append(wrote, again)
			}
		case n == 5 && len(w.queue) > 1 && w.queue[1].Number > w.queue[0].Number && w.queue[1].Session == w.queue[0].Session:
			_, early := w.write(at, w.queue[1]) // a write before its turn
			wrote = append(wrote, early)
		default:
			more := w.do(at)
			changes = append(changes, more...)
		}
	}
	w.changes = append(w.changes, changes...)
	for _, one := range wrote {
		w.written = append(w.written, one.At)
	}
	return changes, wrote
}

func (w *world) do(at store.At) []tree.Change {
	var op tree.Op = tree.Set{Path: w.path(), Version: tree.Any, Data: result(at.Stamp)}
	switch w.random.IntN(5) {
	case 0:
		op = tree.DeleteTree{Path: w.path()}
	case 1, 2:
		op = tree.Create{Path: w.path(), Parents: true, Kind: tree.Persistent, Data: result(at.Stamp)}
	}
	_, changes := w.tree.Do(at, tree.Transaction{Then: []tree.Op{op}})
	return changes
}

// write applies a client's write, as rule X2 says: a repeat has the kept result, and a gap changes nothing.
func (w *world) write(at store.At, f pending.Write) ([]tree.Change, pending.Outcome) {
	of := w.kept[uint64(f.Session)]
	one := pending.Outcome{Session: f.Session, Attachment: f.Attachment, Number: f.Number, At: at.Stamp}
	applied := uint64(len(of.results))
	switch {
	case f.Attachment != of.attachment:
		one.Err = session.ErrMoved
		return nil, one
	case f.Number <= applied:
		one.Result = of.results[f.Number-1]
		return nil, one
	case f.Number > applied+1:
		one.Err = &tree.GapError{Expected: applied + 1}
		return nil, one
	}
	if f.ReadsBefore {
		before := w.tree.Freeze()
		w.before[at.Stamp-1], one.Before = before, before
	}
	at.Principals = root
	one.Result = result(at.Stamp)
	of.results = append(of.results[:applied:applied], one.Result)
	w.kept[uint64(f.Session)] = of
	w.at[forwardedKey{f.Session, f.Number, f.Attachment}] = at.Stamp
	return w.do(at), one
}

// restore continues with the state of a snapshot that is some entries ahead.
func (w *world) restore() {
	for range 1 + w.random.IntN(3) {
		w.entry()
		w.published()
	}
	w.install()
}

// install replaces the state, by what it is.
func (w *world) install() {
	for _, l := range w.dispatchers {
		w.restored[l] = true
	}
	w.hub.Restored(w.published())
}

// pass lets a dispatcher pass, and notes whether it has to skip.
func (w *world) pass(l *dispatch.Dispatcher) bool {
	from, changes, written := watch.End(l.Index()), 0, 0
	for i := len(w.changes) - 1; i >= 0 && w.changes[i].Stamp > from; i-- {
		changes++
	}
	for i := len(w.written) - 1; i >= 0 && w.written[i] > from; i-- {
		written++
	}
	if max(changes, written) > w.ring.Items || w.restored[l] {
		for _, c := range w.clients {
			if c.dispatcher == l {
				c.away = w.index
			}
		}
	}
	delete(w.restored, l)
	return l.Pass()
}

// move gives a client's session a new attachment, on a new connection. show notifies the hub.
func (w *world) move(c *client, show func()) {
	w.index++
	of := w.kept[uint64(c.id)]
	of.attachment++
	w.kept[uint64(c.id)] = of
	c.dispatcher.Detach(c.id, c.attachment, w.index, session.ErrMoved)
	c.left = w.index
	show()
	w.join(c.id, of.attachment)
}

// join makes a client for a session that the state has under an attachment as of the newest entry.
func (w *world) join(id session.ID, attachment uint64) {
	of := w.kept[uint64(id)]
	of.attachment = attachment
	w.kept[uint64(id)] = of
	l := w.dispatchers[w.random.IntN(len(w.dispatchers))]
	applied := uint64(len(of.results))
	c := &client{
		world: w, dispatcher: l, id: id, attachment: attachment, from: w.index, accepted: applied, number: applied,
		done:  applied,
		asked: map[uint64]*request{}, watches: map[string]tree.Stamp{},
	}
	c.conn = l.Open(root, func() {})
	l.Attach(c.conn, id, attachment, w.index)
	w.clients = append(w.clients, c)
}

// collect receives the work that a dispatcher left.
func (w *world) collect() {
	for _, l := range w.dispatchers {
		w.jobs = append(w.jobs, l.Work()...)
	}
}

// finish does one of the jobs, in no order.
func (w *world) finish() {
	if len(w.jobs) == 0 {
		return
	}
	i := w.random.IntN(len(w.jobs))
	w.jobs[i].Do()
	w.jobs[i] = w.jobs[len(w.jobs)-1]
	w.jobs = w.jobs[:len(w.jobs)-1]
}
