package dispatch

import (
	"errors"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Read queues a read, and answers it in its turn. The answer carries the read's Key, whatever the outcome. An error
// says that the read was not queued: a session.LimitError, session.ErrMoved for a session that the connection does not
// serve, or session.ErrClosed.
//
// A linearizable read waits until the owner of the dispatcher has called [Dispatcher.SetReadIndex]. For other reads
// Read returns nil.
func (d *Dispatcher) Read(c *Conn, r Read) (*Request, error) {
	p := &Request{conn: c, kind: reading, key: r.Key, bytes: r.Bytes, until: r.Until, query: r.Query}
	p.awaitsIndex = r.Query.Options.Linearizable || r.Query.Kind == tree.Sync || r.Query.Kind == tree.CheckFence
	p.index = p.seen()
	linearizable := p.awaitsIndex
	if err := d.enqueue(p, r.Query.Session, r.Attachment); err != nil {
		return nil, err
	}
	if !linearizable {
		return nil, nil
	}
	return p, nil
}

// SetReadIndex sets the index that a linearizable read must show (R4 leadership needs a good round), or fails the read
// when there is none. It does nothing if the read has been answered meanwhile.
func (d *Dispatcher) SetReadIndex(p *Request, index uint64, err error) {
	if !p.awaitsIndex || p.conn.closed {
		return
	}
	if err != nil {
		d.fail(p, err)
		return
	}
	p.awaitsIndex, p.index = false, max(p.index, index)
	d.retry(p)
}

// AddWatches adds watches to a connection, and answers like a read without a session. Watches that the client had on
// another connection get their missed events before the answer (V4 resumed watches).
func (d *Dispatcher) AddWatches(c *Conn, a Addition) error {
	p := &Request{conn: c, kind: adding, key: a.Key, bytes: a.Bytes, until: a.Until, addition: a.Addition}
	p.index = p.seen()
	return d.enqueue(p, 0, 0)
}

// RemoveWatches removes a connection's watches at once, if they exist, and answers with their number. None of their
// events follows the answer. Watches that wait to be added are not added.
func (c *Conn) RemoveWatches(key uint64, specs []tree.WatchSpec) error {
	d := c.dispatcher
	if c.closed {
		return session.ErrClosed
	}
	a := &Answer{Key: key, Stamp: d.now()}
	for _, w := range specs {
		kinds := watch.All
		if w.Kind != 0 {
			kinds = watch.Of(w.Kind)
		}
		a.Removed += d.table.Remove(c.watcher, w.Path, kinds).Len()
	}
	removeWaiting(c, specs)
	c.countWatches()
	c.reserve(a, plainAnswer, true)
	return nil
}

// Write queues a write, which goes to the pending table in its turn (G3 order in a session). The errors are those of
// Read.
func (d *Dispatcher) Write(c *Conn, w Write) error {
	p := &Request{conn: c, kind: writing, key: w.Key, bytes: len(w.Body), write: w}
	return d.enqueue(p, uint64(w.Session), w.Attachment)
}

// Refuse answers a session's request with an error in its turn (G3). The number of a write goes to the pending table
// (X8 admission of writes); a read has number 0. The errors are those of Read. A request without a session is answered
// at once.
func (d *Dispatcher) Refuse(c *Conn, w Write, why error) error {
	p := &Request{conn: c, kind: refusing, key: w.Key, refusal: why, write: w}
	return d.enqueue(p, uint64(w.Session), w.Attachment)
}

// Barrier calls passed once all earlier requests for a session under an attachment have been answered, or at once if
// there are none. passed is called while the dispatcher is driven. It must not use the dispatcher.
func (d *Dispatcher) Barrier(id session.ID, attachment uint64, passed func()) {
	for o := d.sessions[attached{id, attachment}]; o != nil; o = o.next {
		if !o.guest {
			o.conn.count(1, 0)
			o.add(&Request{conn: o.conn, queue: o, kind: barrier, passed: passed})
			d.advance(o)
			return
		}
	}
	passed()
}

// Idle reports whether no request for a session waits under an attachment, except those of guests.
func (d *Dispatcher) Idle(id session.ID, attachment uint64) bool {
	for o := d.sessions[attached{id, attachment}]; o != nil; o = o.next {
		if !o.guest && len(o.items) > 0 {
			return false
		}
	}
	return true
}

// enqueue adds a request to its queue, and serves the request if its turn has come.
func (d *Dispatcher) enqueue(p *Request, id, attachment uint64) error {
	var o *sessionQueue
	if id != 0 {
		var err error
		if o, err = p.conn.queueOf(id, attachment); err != nil {
			return err
		}
	}
	if err := p.conn.admit(p); err != nil {
		return err
	}
	if o != nil {
		p.queue, p.index = o, max(p.index, o.from)
		o.add(p)
		d.advance(o)
		return nil
	}
	p.conn.sessionless[p] = struct{}{}
	d.retry(p)
	return nil
}

// retry serves a request whose turn may have come.
func (d *Dispatcher) retry(p *Request) {
	switch {
	case p.queue != nil:
		d.advance(p.queue)
	case d.ready(p):
		d.done(p)
		d.serve(p)
	}
}

// ready reports whether a request that is not a write can be served as of the dispatcher's tree. If not, ready
// registers the request to wait.
func (d *Dispatcher) ready(p *Request) bool {
	if !d.shown.Founded {
		p.index = max(p.index, d.node.Hub.shown.Load().Index)
	}
	switch {
	case p.kind == refusing, p.kind == barrier:
		return true
	case p.awaitsIndex:
		d.due.add(p) // the request's wait can expire too
		return false
	case p.index > d.Index():
		d.due.add(p)
		return false
	case p.conn.hasBudget():
		return true
	}
	if !p.blocked {
		p.blocked = true
		p.conn.blocked = append(p.conn.blocked, p)
		d.starving[p.conn] = struct{}{}
	}
	return false
}

// serve answers a request as of the dispatcher's tree: one critical section that registers the watch, and reserves the
// answer's place (G2 atomic reads). A [Job] does the slow part.
func (d *Dispatcher) serve(p *Request) {
	switch {
	case p.kind == barrier:
		p.passed()
		return
	case p.kind == refusing && p.write.Number > 0:
		d.node.Writes.Refused(&p.write.Write)
	}
	if err := d.mayServe(p); err != nil {
		d.answerNow(p, nil, err)
		return
	}
	if p.kind == adding {
		d.addWatches(p)
		return
	}
	stat, exists := d.shown.Root.Stat(p.query.Path)
	if err := d.register(p, exists); err != nil {
		d.answerNow(p, nil, err)
		return
	}
	d.read(p, d.shown.Root, d.now(), largest(&p.query, stat))
}

// read answers a read from a tree, which is the dispatcher's at the stamp.
func (d *Dispatcher) read(p *Request, root tree.Frozen, at tree.Stamp, bytes int) {
	a := &Answer{Key: p.key, Stamp: at}
	p.conn.reserve(a, bytes, false)
	d.work = append(d.work, Job{
		conn: p.conn, answer: a, root: root, clock: d.clock, as: p.conn.principals, query: p.query,
	})
}

// serveFrom answers a read that writes have passed, from the tree after the writes before it. Without the tree, or
// without memory for an entry that has grown since, the read is refused.
func (d *Dispatcher) serveFrom(p *Request, root tree.Frozen, at tree.Stamp) {
	err, bytes := d.mayServe(p), 0
	if root != nil {
		stat, _ := root.Stat(p.query.Path)
		bytes = largest(&p.query, stat)
	}
	if err == nil && (root == nil || bytes > p.reserved && !p.conn.hasBudget()) {
		err = session.ErrLagging
	}
	if err != nil {
		d.answer(p, &Answer{Key: p.key, Stamp: max(at, d.now()), Err: err})
		return
	}
	d.read(p, root, at, bytes)
}

// now returns the stamp of the dispatcher's tree.
func (d *Dispatcher) now() tree.Stamp { return watch.End(d.Index()) }

// mayServe returns why a request is refused.
func (d *Dispatcher) mayServe(p *Request) error {
	switch {
	case p.kind == refusing:
		return p.refusal
	case d.refuse != nil && !p.options().AllowStale:
		return d.refuse
	default:
		return nil
	}
}

// register registers the watch of a read as of the dispatcher's tree. A read of an entry that does not exist, or that
// may not be read, registers no watch, except a read of GetStat (V4). If GetStat is answered for an unreadable entry,
// the client waits for the first change that it may read.
func (d *Dispatcher) register(p *Request, exists bool) error {
	kind := p.query.WatchKind()
	if !p.query.Watch || kind == 0 {
		return nil
	}
	readable := d.shown.Root.Effective(p.query.Path).Grants(tree.Read, p.conn.principals)
	switch {
	case !exists && kind != tree.WatchExists, exists && !readable && !p.query.SkipReadCheck:
		return nil
	case exists && kind == tree.WatchExists:
		kind = tree.WatchData
	}
	if err := d.table.Add(p.conn.watcher, p.query.Path, kind); err != nil {
		return err
	}
	p.conn.countWatches()
	return nil
}

// addWatches adds watches and answers. The watches begin with the dispatcher's tree, or get their missed events since a
// stamp.
func (d *Dispatcher) addWatches(p *Request) {
	c := p.conn
	a := &Answer{Key: p.key, Stamp: d.now()}
	if p.addition.Since == 0 {
		a.Err = c.addFresh(slices.Clone(p.addition.Watches))
	} else {
		resumeWatches(d, p, a)
	}
	c.countWatches()
	d.answer(p, a)
}

// addFresh adds watches as of the dispatcher's tree, all or none.
func (c *Conn) addFresh(specs []tree.WatchSpec) error {
	d := c.dispatcher
	for i, w := range specs {
		if _, exists := d.shown.Root.Stat(w.Path); exists && w.Kind == tree.WatchExists {
			w.Kind = tree.WatchData // as a read would register (V4)
		}
		had := d.table.Has(c.watcher, w.Path, watch.All)
		err := d.table.Add(c.watcher, w.Path, w.Kind)
		if err != nil {
			for _, added := range specs[:i] {
				if added.Kind != 0 {
					d.table.Remove(c.watcher, added.Path, watch.Of(added.Kind))
				}
			}
			return err
		}
		if specs[i].Kind = w.Kind; had&watch.Of(w.Kind) != 0 {
			specs[i].Kind = 0 // existed before: not to be removed on an error
		}
	}
	return nil
}

// Job is a read whose answer has a reserved place. It shows the dispatcher's tree of that time, and may run at any time
// later.
type Job struct {
	conn   *Conn
	answer *Answer
	root   tree.Frozen
	clock  time.Duration
	as     []tree.Principal
	query  tree.Query
}

// Do fills the answer. Call it once, from any goroutine.
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

// remaining sets the time that an entry has left (D5 TTLs and containers).
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
		if q.SkipReadCheck {
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
			return tree.Answer{}, nil // the token is not a holder's
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

// sizeOf returns the approximate memory of an answer.
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
