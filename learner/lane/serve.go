package lane

import (
	"errors"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Read takes a read, and answers it in its turn. The answer carries the read's Key, whatever becomes of it. An error
// says that the read was not taken: a session.LimitError, session.ErrMoved for a session that the connection does not
// serve, or session.ErrClosed.
//
// A linearizable read waits until the owner of the lane has told it the leader's index with [Lane.Asked]. For other
// reads nil is returned.
func (l *Lane) Read(c *Conn, r Read) (*Pending, error) {
	p := &Pending{conn: c, kind: reading, key: r.Key, bytes: r.Bytes, until: r.Until, query: r.Query}
	p.unasked = r.Query.Options.Linearizable || r.Query.Kind == tree.Sync || r.Query.Kind == tree.CheckFence
	p.index = p.seen()
	linearizable := p.unasked
	if err := l.take(p, r.Query.Session, r.Attachment); err != nil {
		return nil, err
	}
	if !linearizable {
		return nil, nil
	}
	return p, nil
}

// Asked tells a linearizable read the index that it has to show (R4), or why the leader told none. It does nothing if
// the read has been answered meanwhile.
func (l *Lane) Asked(p *Pending, index uint64, err error) {
	if !p.unasked || p.conn.closed {
		return
	}
	if err != nil {
		l.giveUp(p, err)
		return
	}
	p.unasked, p.index = false, max(p.index, index)
	l.retry(p)
}

// AddWatches adds watches to a connection, and answers as a read without a session. Those that the client had on
// another connection are told what they are owed, before the answer (V4).
func (l *Lane) AddWatches(c *Conn, a Addition) error {
	p := &Pending{conn: c, kind: adding, key: a.Key, bytes: a.Bytes, until: a.Until, addition: a.Addition}
	p.index = p.seen()
	return l.take(p, 0, 0)
}

// RemoveWatches removes a connection's watches at once, those that there are, and answers how many. None of their
// events follows the answer. Those that wait to be added are not added.
func (c *Conn) RemoveWatches(key uint64, specs []tree.WatchSpec) error {
	l := c.lane
	if c.closed {
		return session.ErrClosed
	}
	a := &Answer{Key: key, Stamp: l.now()}
	for _, w := range specs {
		kinds := watch.All
		if w.Kind != 0 {
			kinds = watch.Of(w.Kind)
		}
		a.Removed += l.table.Remove(c.watcher, w.Path, kinds).Len()
	}
	withdraw(c, specs)
	c.watching()
	c.reserve(a, plainAnswer, true)
	return nil
}

// Write takes a write, and gives it to the queue of writes in its turn (G3). The errors are those of Read.
func (l *Lane) Write(c *Conn, w Write) error {
	p := &Pending{conn: c, kind: writing, key: w.Key, bytes: len(w.Body), write: w}
	return l.take(p, uint64(w.Session), w.Attachment)
}

// Refuse answers a session's request with an error in its turn (G3). A write has a number, which the queue of writes
// hears of (X8); that of a read is 0. The errors are those of Read. Without a session it is answered at once.
func (l *Lane) Refuse(c *Conn, w Write, why error) error {
	p := &Pending{conn: c, kind: refusing, key: w.Key, refusal: why, write: w}
	return l.take(p, uint64(w.Session), w.Attachment)
}

// Mark calls passed once all requests for a session under an attachment that came before have been answered, or at once
// if there are none. passed is called while the lane is driven. It must not use the lane.
func (l *Lane) Mark(id session.ID, attachment uint64, passed func()) {
	for o := l.sessions[attached{id, attachment}]; o != nil; o = o.next {
		if !o.guest {
			o.conn.count(1, 0)
			o.add(&Pending{conn: o.conn, queue: o, kind: marking, passed: passed})
			l.advance(o)
			return
		}
	}
	passed()
}

// Settled reports whether no request for a session waits under an attachment, but for those of guests.
func (l *Lane) Settled(id session.ID, attachment uint64) bool {
	for o := l.sessions[attached{id, attachment}]; o != nil; o = o.next {
		if !o.guest && len(o.items) > 0 {
			return false
		}
	}
	return true
}

// take puts a request in its place, and serves it if its turn has come.
func (l *Lane) take(p *Pending, id, attachment uint64) error {
	var o *order
	if id != 0 {
		var err error
		if o, err = p.conn.orderOf(id, attachment); err != nil {
			return err
		}
	}
	if err := p.conn.admit(p); err != nil {
		return err
	}
	if o != nil {
		p.queue, p.index = o, max(p.index, o.from)
		o.add(p)
		l.advance(o)
		return nil
	}
	p.conn.loose[p] = struct{}{}
	l.retry(p)
	return nil
}

// retry serves a request whose turn may have come.
func (l *Lane) retry(p *Pending) {
	switch {
	case p.queue != nil:
		l.advance(p.queue)
	case l.ready(p):
		l.done(p)
		l.serve(p)
	}
}

// ready reports whether a request that is not a write can be served as of the lane's tree. If not, it is noted what it
// waits for.
func (l *Lane) ready(p *Pending) bool {
	if !l.shown.Founded {
		p.index = max(p.index, l.node.Hub.shown.Load().Index)
	}
	switch {
	case p.kind == refusing, p.kind == marking:
		return true
	case p.unasked:
		l.due.add(p) // its wait ends too
		return false
	case p.index > l.Index():
		l.due.add(p)
		return false
	case p.conn.hasRoom():
		return true
	}
	if !p.blocked {
		p.blocked = true
		p.conn.blocked = append(p.conn.blocked, p)
		l.starving[p.conn] = struct{}{}
	}
	return false
}

// serve answers a request as of the lane's tree: one critical section that registers the watch, and reserves the
// answer's place (G2). What takes time is left to a [Job].
func (l *Lane) serve(p *Pending) {
	switch {
	case p.kind == marking:
		p.passed()
		return
	case p.kind == refusing && p.write.Number > 0:
		l.node.Writes.Refused(&p.write)
	}
	if err := l.mayServe(p); err != nil {
		l.answerNow(p, nil, err)
		return
	}
	if p.kind == adding {
		l.addWatches(p)
		return
	}
	stat, exists := l.shown.Root.Stat(p.query.Path)
	if err := l.register(p, exists); err != nil {
		l.answerNow(p, nil, err)
		return
	}
	a := &Answer{Key: p.key, Stamp: l.now()}
	p.conn.reserve(a, largest(&p.query, stat), false)
	l.work = append(l.work, Job{conn: p.conn, answer: a, root: l.shown.Root, as: p.conn.principals, query: p.query})
	l.work[len(l.work)-1].clock = l.shown.Clock
}

// now returns the stamp of the lane's tree.
func (l *Lane) now() tree.Stamp { return watch.End(l.Index()) }

// mayServe returns why a request is refused.
func (l *Lane) mayServe(p *Pending) error {
	switch {
	case p.kind == refusing:
		return p.refusal
	case l.refuse != nil && !p.options().AllowStale:
		return l.refuse
	default:
		return nil
	}
}

// register registers the watch of a read as of the lane's tree. A read of an entry that does not exist, or that may not
// be read, watches nothing, but for one that asks whether the entry exists (V4). If that one is answered for an entry
// that may not be read, its client waits for an event: of the first change that it may read.
func (l *Lane) register(p *Pending, exists bool) error {
	kind := p.query.WatchKind()
	if !p.query.Watch || kind == 0 {
		return nil
	}
	readable := l.shown.Root.Effective(p.query.Path).Grants(tree.Read, p.conn.principals)
	switch {
	case !exists && kind != tree.WatchExists, exists && !readable && !p.query.Unguarded:
		return nil
	case exists && kind == tree.WatchExists:
		kind = tree.WatchData
	}
	if err := l.table.Add(p.conn.watcher, p.query.Path, kind); err != nil {
		return err
	}
	p.conn.watching()
	return nil
}

// addWatches adds watches and answers. They begin with the lane's tree, or are told what they are owed since a stamp.
func (l *Lane) addWatches(p *Pending) {
	c := p.conn
	a := &Answer{Key: p.key, Stamp: l.now()}
	if p.addition.Since == 0 {
		a.Err = c.addFresh(slices.Clone(p.addition.Watches))
	} else {
		comeBack(l, p, a)
	}
	c.watching()
	l.answer(p, a)
}

// addFresh adds watches as of the lane's tree, all or none.
func (c *Conn) addFresh(specs []tree.WatchSpec) error {
	l := c.lane
	for i, w := range specs {
		if _, exists := l.shown.Root.Stat(w.Path); exists && w.Kind == tree.WatchExists {
			w.Kind = tree.WatchData // as a read would register (V4)
		}
		had := l.table.Has(c.watcher, w.Path, watch.All)
		err := l.table.Add(c.watcher, w.Path, w.Kind)
		if err != nil {
			for _, added := range specs[:i] {
				if added.Kind != 0 {
					l.table.Remove(c.watcher, added.Path, watch.Of(added.Kind))
				}
			}
			return err
		}
		if specs[i].Kind = w.Kind; had&watch.Of(w.Kind) != 0 {
			specs[i].Kind = 0 // not to be taken back
		}
	}
	return nil
}

// Job is a read whose place is reserved. It shows the lane's tree as it was then, and may be done at any time later.
type Job struct {
	conn   *Conn
	answer *Answer
	root   tree.Frozen
	clock  time.Duration
	as     []tree.Principal
	query  tree.Query
}

// Do fills the answer. It is called once, by any goroutine.
func (j Job) Do() {
	found, err := j.read()
	found.Kind, found.Stamp = j.query.Kind, j.answer.Stamp
	if err != nil {
		found = tree.Answer{}
	}
	j.remaining(&found.Stat)
	for i := range found.Children {
		j.remaining(&found.Children[i].Stat)
	}
	j.conn.fill(j.answer, found, err, sizeOf(&found))
}

// remaining tells how long an entry has left (D5).
func (j Job) remaining(s *tree.Stat) {
	if s.Due > 0 {
		s.Remaining = max(s.Due-j.clock, 0)
	}
}

func (j Job) read() (a tree.Answer, err error) {
	q, view := &j.query, j.root.As(j.as)
	switch q.Kind {
	case tree.GetEntry:
		var n tree.Node
		n, err = view.Get(q.Path)
		return tree.Answer{Exists: err == nil, Stat: n.Stat, Data: n.Data}, err
	case tree.GetStat:
		if q.Unguarded {
			view = j.root.As([]tree.Principal{{Scheme: tree.Super}})
		}
		a.Stat, a.Exists, err = view.Exists(q.Path)
		return a, err
	case tree.ListChildren:
		if q.Whole {
			return j.names(view)
		}
		var page tree.Page
		page, err = view.List(q.Path, j.bounds(), j.detail())
		return tree.Answer{Exists: err == nil, Stat: page.Stat, Children: page.Children, More: page.More}, err
	case tree.ListEphemerals:
		a.Paths, a.More, err = j.root.EphemeralsPage(q.Owner, q.Path, j.bounds())
		return a, err
	case tree.GetACL:
		var list tree.AccessList
		list, err = view.ACL(q.Path)
		return tree.Answer{Exists: err == nil, Stat: list.Stat, ACL: list.ACL, Inherited: list.Inherited}, err
	case tree.CheckFence:
		_, err = view.CheckFence(q.Path, q.Token)
		if refused := new(tree.RefusedError); errors.As(err, &refused) && refused.Code != tree.NoPermission {
			return tree.Answer{}, nil // the token is not that of a holder
		}
		return tree.Answer{Holds: err == nil}, err
	case tree.Sync:
		return tree.Answer{}, nil
	default:
		return tree.Answer{}, &session.FieldError{Field: "kind", Limit: "one of the kinds of queries"}
	}
}

func (j Job) bounds() tree.PageBounds {
	size := j.query.PageSize
	if size == 0 {
		size = tree.DefaultPage
	}
	return tree.PageBounds{After: j.query.After, Backward: j.query.Backward, Entries: size, Bytes: tree.MaxPageBytes}
}

func (j Job) detail() tree.Detail {
	switch {
	case j.query.WithData:
		return tree.WithData
	case j.query.WithStat:
		return tree.WithStats
	default:
		return tree.JustNames
	}
}

// sizeOf returns about what an answer takes.
func sizeOf(a *tree.Answer) int {
	const plain, child, text = 256, 128, 16
	size := plain + len(a.Data)
	for i := range a.Children {
		size += child + len(a.Children[i].Name) + len(a.Children[i].Data)
	}
	for _, p := range a.Paths {
		size += text + len(p)
	}
	for _, g := range a.ACL {
		size += child + len(g.ID)
	}
	return size
}
