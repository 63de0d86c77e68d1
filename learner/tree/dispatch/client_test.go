package dispatch_test

import (
	"bytes"
	"errors"
	"fmt"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
)

// request is what a client waits for.
type request struct {
	query  tree.Query
	number uint64 // of a write
	adding bool
	seq    int    // in the session; 0 without
	least  uint64 // the index that the answer must show
}

// client is a connection with a session, and the checker of its messages (I11 no event missing, I13 no step back, G3 to
// G5).
type client struct {
	*world
	dispatcher *dispatch.Dispatcher
	conn       *dispatch.Conn
	id         session.ID
	attachment uint64
	from       uint64
	accepted   uint64 // by the node's queue
	left       uint64 // the index at which the session was moved

	number, done uint64 // of the newest write sent, and of the newest that has a result
	writes       int    // unanswered
	stalled      bool   // a write was refused: the next one waits for all answers
	asked        map[uint64]*request
	unasked      []*dispatch.Request
	keys         uint64
	seq, heard   int // in the session: of the newest request, and of the newest answer

	last       tree.Stamp // of the newest message
	told       tree.Stamp
	wrote      tree.Stamp // of the newest own write answered, read of the newest read in the session
	read       tree.Stamp
	away       uint64 // the dispatcher may have gone on at this index without what was before
	recursive  bool   // the client watches everything
	next       int    // in the world's changes: the next to hear of
	watches    map[string]tree.Stamp
	lost       tree.Stamp
	events     int
	reads      int
	between    int // reads that show the tree between two commands of an entry
	writesDone int
	losts      int
}

func (c *client) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("session %v.%d: %s", c.id, c.attachment, fmt.Sprintf(format, args...))
}

// ask notes a request.
func (c *client) ask(r *request) uint64 {
	c.keys++
	c.asked[c.keys] = r
	return c.keys
}

func (c *client) watchAll() {
	c.recursive = true
	key := c.ask(&request{adding: true})
	spec := []tree.WatchSpec{{Path: "/", Kind: tree.WatchRecursive}}
	added := dispatch.Addition{Key: key, Addition: tree.Addition{Watches: spec}}
	if err := c.dispatcher.AddWatches(c.conn, added); err != nil {
		c.fatalf("add watches: %v", err)
	}
	c.next = -1
}

func (c *client) act() {
	switch n := c.random.IntN(10); {
	case n < 4:
		c.startRead()
	case n < 6:
		c.startWrite()
	case n == 6 && len(c.unasked) > 0:
		c.dispatcher.SetReadIndex(c.unasked[0], c.index, nil)
		c.unasked = c.unasked[1:]
	default:
		c.take(c.random.IntN(4))
	}
}

func (c *client) startRead() {
	kinds := []tree.QueryKind{tree.GetEntry, tree.GetStat, tree.ListChildren}
	q := tree.Query{Kind: kinds[c.random.IntN(len(kinds))], Path: c.path(), PageSize: 10, Watch: !c.recursive && c.random.IntN(2) == 0}
	r := &request{least: c.from}
	if c.random.IntN(4) > 0 {
		q.Session = uint64(c.id)
	}
	switch c.random.IntN(4) {
	case 0:
		q.Options.Linearizable, r.least = true, c.index
	case 1:
		q.Options.Seen = tree.StampAt(c.index+uint64(c.random.IntN(2)), 1)
		r.least = q.Options.Seen.Index()
	}
	if q.Session == 0 && r.least == c.from {
		r.least = 0
	}
	r.query = q
	key := c.ask(r)
	before := c.seq
	if q.Session != 0 {
		c.seq++
		r.seq = c.seq
	}
	p, err := c.dispatcher.Read(c.conn, dispatch.Read{Key: key, Query: q, Attachment: c.attachment, Bytes: 10})
	switch {
	case errors.Is(err, session.ErrLimit), c.left > 0 && errors.Is(err, session.ErrMoved):
		c.seq = before
		delete(c.asked, key)
	case err != nil:
		c.fatalf("read: %v", err)
	case p != nil:
		c.unasked = append(c.unasked, p)
	}
}

func (c *client) startWrite() {
	if c.stalled && c.writes > 0 {
		return
	}
	if c.stalled {
		c.stalled, c.number = false, c.done
	}
	key := c.ask(&request{number: c.number + 1, seq: c.seq + 1})
	err := c.dispatcher.Write(c.conn, dispatch.Write{
		Key: key, Write: pending.Write{
			Session: c.id, Attachment: c.attachment, Number: c.number + 1, Body: []byte("write"), Weight: 1,
		},
	})
	switch {
	case errors.Is(err, session.ErrLimit), c.left > 0 && errors.Is(err, session.ErrMoved):
		delete(c.asked, key)
	case err != nil:
		c.fatalf("write: %v", err)
	default:
		c.seq++
		c.number++
		c.writes++
	}
}

// take receives at most n messages.
func (c *client) take(n int) (taken bool) {
	for range n {
		s, ok := c.conn.Next(c.now)
		if !ok {
			return taken
		}
		taken = true
		if s.Delivered < c.told {
			c.fatalf("told %v after %v", s.Delivered, c.told)
		}
		switch {
		case s.Quiet:
		case s.Lost:
			c.lose(s.Stamp)
		case s.Value.Answer != nil:
			c.answered(s.Value.Answer)
		default:
			c.event(s.Value.Event)
		}
		if s.Delivered > c.told {
			c.told = s.Delivered
			c.owes(s.Delivered, "told")
		}
	}
	return taken
}

func (c *client) lose(s tree.Stamp) {
	c.losts++
	c.lost = max(c.lost, s) // answers behind it may show less: it says only what will not be told any more
	if !c.recursive {
		c.fatalf("LOST{%v}, and there are only one-shot watches", s)
	}
}

func (c *client) event(e tree.Event) {
	if e.Stamp < c.last {
		c.fatalf("%+v after stamp %v", e, c.last)
	}
	c.last = e.Stamp
	c.events++
	if c.recursive {
		c.pass(c.lost)
		if c.next < 0 || c.next == len(c.changes) || eventOf(c.changes[c.next]) != e {
			c.fatalf("%+v is not the next change, %d of %d", e, c.next, len(c.changes))
		}
		c.next++
		return
	}
	known := false
	for _, kind := range endedBy(e.Kind) {
		key := watchKey(e.Path, kind)
		since, ok := c.watches[key]
		if !ok {
			continue
		}
		known = true
		delete(c.watches, key)
		if first, ok := c.first(e.Path, kind, since); since.Index() >= c.away && (!ok || first != e.Stamp) {
			c.fatalf("%v watch of %s since %v: told %+v, first change is %v", kind, e.Path, since, e, first)
		}
	}
	if !known {
		c.fatalf("%+v, and no answer has said that there is a watch", e)
	}
}

// pass skips the changes up to a stamp, which a LOST covers.
func (c *client) pass(s tree.Stamp) {
	for c.next >= 0 && c.next < len(c.changes) && c.changes[c.next].Stamp <= s {
		c.next++
	}
}

// owes checks that no event up to a stamp is missing.
func (c *client) owes(s tree.Stamp, why string) {
	if c.recursive {
		c.pass(c.lost)
		if c.next >= 0 && c.next < len(c.changes) && c.changes[c.next].Stamp <= s {
			c.fatalf("%s %v before the event of %v", why, s, c.changes[c.next].Stamp)
		}
		return
	}
	for key, since := range c.watches {
		path, kind := key[1:], tree.WatchKind(key[0])
		first, ok := c.first(path, kind, since)
		if ok && first <= s && since.Index() >= c.away {
			c.fatalf("%s %v before the event of %v, for the %v watch of %s since %v", why, s, first, kind, path, since)
		}
	}
}

// first returns the stamp of the first change that a watch is for.
func (c *client) first(path string, kind tree.WatchKind, since tree.Stamp) (tree.Stamp, bool) {
	for _, change := range c.changes {
		if change.Stamp > since && matches(path, kind, change) {
			return change.Stamp, true
		}
	}
	return 0, false
}

func (c *client) answered(a *dispatch.Answer) {
	r := c.asked[a.Key]
	if r == nil {
		c.fatalf("answer to request %d, which waits for none", a.Key)
	}
	delete(c.asked, a.Key)
	if a.Stamp < c.last {
		c.fatalf("answer of %v after %v", a.Stamp, c.last)
	}
	c.last = a.Stamp
	c.owes(a.Stamp, "answer of")
	if r.seq > 0 {
		if r.seq != c.heard+1 {
			c.fatalf("answer to request %d of the session after that to %d", r.seq, c.heard)
		}
		c.heard = r.seq
	}
	switch {
	case r.number > 0:
		c.writeAnswered(r, a)
	case r.adding && a.Err == nil:
		c.next = 0
		c.pass(a.Stamp)
	case a.Err == nil || errors.Is(a.Err, &tree.RefusedError{Code: tree.NoNode}):
		c.readAnswered(r, a)
	case errors.Is(a.Err, session.ErrLagging) && (c.away > 0 || c.narrow) && r.seq > 0: // writes had passed it, and its tree was missed, or its entry grew
	case c.left == 0 || !errors.Is(a.Err, session.ErrMoved):
		c.fatalf("read of %+v: %v", r.query, a.Err)
	}
}

func (c *client) writeAnswered(r *request, a *dispatch.Answer) {
	c.writes--
	at, took := c.at[forwardedKey{c.id, r.number, c.attachment}]
	switch {
	case errors.Is(a.Err, session.ErrOutcomeUnknown):
		if c.away == 0 {
			c.fatalf("write %d: %v, and nothing was skipped", r.number, a.Err)
		}
		c.done = r.number
	case errors.Is(a.Err, session.ErrMoved):
		if c.left == 0 || took && at.Index() <= c.left {
			c.fatalf("write %d, which took effect at %v: %v; moved at %d", r.number, at, a.Err, c.left)
		}
	case a.Err != nil: // the queue's refusal
		c.stalled = true
	case !took || ownStamp(a.Result) != at:
		c.fatalf("write %d: own stamp is %v, took effect at %v", r.number, ownStamp(a.Result), at)
	case a.Stamp != at && at.Index() > c.away:
		c.fatalf("write %d: answered as of %v, took effect at %v", r.number, a.Stamp, at)
	case c.read >= at:
		c.fatalf("write %d of %v: a read before it shows %v", r.number, at, c.read)
	default:
		c.done, c.wrote = r.number, at
		c.writesDone++
	}
}

// readAnswered compares an answer with the tree that it says it shows.
func (c *client) readAnswered(r *request, a *dispatch.Answer) {
	if a.Stamp.Index() < r.least {
		c.fatalf("read of %+v: shows %v, want index %d", r.query, a.Stamp, r.least)
	}
	c.reads++
	if r.seq > 0 {
		if a.Stamp < c.wrote {
			c.fatalf("read shows %v, own write is of %v", a.Stamp, c.wrote)
		}
		c.read = a.Stamp
	}
	q, shown := r.query, c.roots[a.Stamp.Index()]
	if before := c.before[a.Stamp]; before != nil {
		shown = before
		c.between++
	}
	want, exists := shown.Get(q.Path)
	if told := a.Err == nil && a.Read.Exists; told != exists || q.Kind == tree.GetStat && a.Err != nil {
		c.fatalf("read of %s at %v: %+v, %v; exists is %v", q.Path, a.Stamp, a.Read, a.Err, exists)
	}
	if exists && (a.Read.Stat != want.Stat || q.Kind == tree.GetEntry && !bytes.Equal(a.Read.Data, want.Data)) {
		c.fatalf("read of %s at %v: %+v, want %+v", q.Path, a.Stamp, a.Read, want)
	}
	kind := q.WatchKind()
	switch {
	case !q.Watch, !exists && q.Kind != tree.GetStat:
		return
	case exists && kind == tree.WatchExists:
		kind = tree.WatchData
	}
	if key := watchKey(q.Path, kind); c.watches[key] == 0 || c.watches[key].Index() < c.away {
		c.watches[key] = a.Stamp
	}
}

func watchKey(path string, kind tree.WatchKind) string { return string(rune(kind)) + path }

// endedBy returns the kinds of one-shot watches that an event ends.
func endedBy(kind tree.EventKind) []tree.WatchKind {
	switch kind {
	case tree.EntryDeleted:
		return []tree.WatchKind{tree.WatchData, tree.WatchExists, tree.WatchChild}
	case tree.ChildrenChanged:
		return []tree.WatchKind{tree.WatchChild}
	case tree.EntryCreated, tree.DataChanged:
		return []tree.WatchKind{tree.WatchData, tree.WatchExists}
	default:
		return nil
	}
}

// matches reports whether a change is one that a one-shot watch is for.
func matches(path string, kind tree.WatchKind, c tree.Change) bool {
	switch {
	case kind == tree.WatchChild && c.Kind != tree.DataSet && tree.Parent(c.Path) == path:
		return true
	case c.Path != path:
		return false
	case kind == tree.WatchChild:
		return c.Kind == tree.Deleted
	case kind == tree.WatchData:
		return c.Kind != tree.Created
	default:
		return true
	}
}

// eventOf returns the event of a recursive watch for a change.
func eventOf(c tree.Change) tree.Event {
	kinds := map[tree.ChangeKind]tree.EventKind{
		tree.Created: tree.EntryCreated, tree.Deleted: tree.EntryDeleted, tree.DataSet: tree.DataChanged,
	}
	return tree.Event{Stamp: c.Stamp, Kind: kinds[c.Kind], Path: c.Path}
}
