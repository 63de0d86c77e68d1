package zk

import (
	"strings"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// read makes a request of one read. reply appends the record to the header.
func (c *conn) read1(r *request, q tree.Query, reply func(e *jute.Encoder, a *tree.Answer)) {
	r.again = !q.Watch
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, q) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(c, a)
		if err != nil {
			return nil, false, err
		}
		e := jute.Reply(r.Xid, int64(a.Stamp), code) //nolint:gosec // stamps are positive
		if code == jute.OK {
			reply(e, a.Read)
		}
		return e, false, nil
	}
}

// ask hands a read to the node, in the order of the session's requests (G3).
func (c *conn) ask(r *request, key uint64, q tree.Query) error {
	q.Session = uint64(c.token.ID)
	q.Options.AllowStale = c.token.Local // a client that can do with a read-only server (Z9)
	if q.PageSize == 0 && (q.Kind == tree.ListChildren || q.Kind == tree.ListEphemerals) {
		q.PageSize = tree.MaxPage
	}
	return c.tree.Read(session.TreeRead{Key: key, Query: q, Bytes: r.bytes + readOverhead})
}

// readOverhead is about what a read takes while it waits, besides its path.
const readOverhead = 256

// codeOfAnswer returns the code of an answer to a read. The error ends the connection. That is so for a session of the
// cluster, too, at a node that has become read-only: in a moment the node ends the connection by itself (Z9).
func codeOfAnswer(c *conn, a *session.TreeAnswer) (jute.Code, error) {
	if a.Err == nil {
		return jute.OK, nil
	}
	code, ok := codeOf(a.Err)
	if !ok || code == jute.NotReadOnly && !c.token.Local {
		return 0, a.Err
	}
	return code, nil
}

// valid refuses a read of a path that no entry can have. ZooKeeper looks for it, and finds nothing.
func (c *conn) valid(r *request, path string) bool {
	if tree.CheckPath(path) != nil {
		c.refuse(r, jute.NoNode)
		return false
	}
	return true
}

func prepareExists(c *conn, r *request) {
	b := r.Body.(jute.WatchRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if strings.Contains(b.Path, "\x00") {
		c.refuse(r, jute.BadArguments)
		return
	}
	if !c.valid(r, b.Path) {
		return
	}
	c.read1(r, tree.Query{Kind: tree.GetStat, Path: b.Path, Watch: b.Watch, Unguarded: true}, nil)
	answer := r.answer
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		if a.Err != nil {
			return answer(r, a)
		}
		if !a.Read.Exists { // the watch stays
			return jute.Reply(r.Xid, int64(a.Stamp), jute.NoNode), false, nil //nolint:gosec // stamps are positive
		}
		e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
		e.Stat(statOf(a.Read.Stat))
		return e, false, nil
	}
}

func prepareGetData(c *conn, r *request) {
	b := r.Body.(jute.WatchRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if c.valid(r, b.Path) {
		c.read1(r, tree.Query{Kind: tree.GetEntry, Path: b.Path, Watch: b.Watch}, func(e *jute.Encoder, a *tree.Answer) {
			e.Buffer(a.Data)
			e.Stat(statOf(a.Stat))
		})
	}
}

func prepareGetACL(c *conn, r *request) {
	b := r.Body.(jute.PathRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if c.valid(r, b.Path) {
		c.read1(r, tree.Query{Kind: tree.GetACL, Path: b.Path}, func(e *jute.Encoder, a *tree.Answer) {
			e.ACLs(grantsOf(a.ACL))
			e.Stat(statOf(a.Stat))
		})
	}
}

// prepareSync is answered once the node shows all that was committed anywhere when it was asked: more than ZooKeeper's
// sync, which a deposed leader may answer (W-11).
func prepareSync(c *conn, r *request) {
	b := r.Body.(jute.PathRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	c.read1(r, tree.Query{Kind: tree.Sync, Options: tree.ReadOptions{Linearizable: true}}, func(
		e *jute.Encoder, _ *tree.Answer,
	) {
		e.String(b.Path)
	})
}

// prepareChildren lists children, page by page if there are many. The pages are one list if none was made or removed
// between them; otherwise it begins anew, and then asks for the whole list. The watch is that of the last page.
func prepareChildren(c *conn, r *request) {
	b := r.Body.(jute.WatchRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if !c.valid(r, b.Path) {
		return
	}
	if r.order, r.again = lists, !b.Watch; b.Watch {
		r.order = lastOf
	}
	list := &listing{query: tree.Query{Kind: tree.ListChildren, Path: b.Path, Watch: b.Watch}}
	c.list(r, list, func(a *session.TreeAnswer) *jute.Encoder {
		e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
		e.Strings(list.names)
		if r.Op == jute.GetChildren2 {
			e.Stat(statOf(a.Read.Stat))
		}
		return e
	})
}

// listing is a list that is read page by page.
type listing struct {
	query tree.Query
	names []string
	// bytes is what the names take in a reply.
	bytes int
	// as is the change of children as of the first page, begun how often the list has begun anew.
	as    tree.Stamp
	begun int
}

// maxBegun is how often a list begins anew. The last time the node reads all of it in one go, as of one state.
// Without: a list that always changes while it is read is never answered, nor is what its client asks behind it. No
// list is read so from the start, as all of it takes room at once that the node's answers share (G9).
const maxBegun = 3

// take adds a page. It reports whether another one is to be read.
func (l *listing) take(a *tree.Answer) (more bool) {
	if l.query.After == "" {
		l.as, l.names, l.bytes = a.Stat.ChildrenModified, l.names[:0], 0
	}
	had := len(l.names)
	for _, child := range a.Children {
		l.names = append(l.names, child.Name)
	}
	l.names = append(l.names, a.Paths...)
	for _, name := range l.names[had:] {
		l.bytes += lengthBytes + len(name)
	}
	switch {
	case l.query.Kind == tree.ListChildren && a.Stat.ChildrenModified != l.as:
		l.query.After, l.begun = "", l.begun+1
		l.query.Whole = l.begun >= maxBegun
		return true
	case a.More:
		l.query.After = l.names[len(l.names)-1]
		return true
	}
	return false
}

// list makes a request of as many reads as a list takes. What was read counts as what waits (G8).
func (c *conn) list(r *request, l *listing, reply func(a *session.TreeAnswer) *jute.Encoder) {
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, l.query) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(c, a)
		switch {
		case err != nil:
			return nil, false, err
		case code != jute.OK:
			return jute.Reply(r.Xid, int64(a.Stamp), code), false, nil //nolint:gosec // stamps are positive
		case l.take(a.Read):
			c.line.count(r, l.bytes)
			return nil, true, c.line.hand(r, r.begin)
		}
		return reply(a), false, nil
	}
}

// prepareEphemerals lists the session's ephemerals whose paths begin with a text (W-21).
func prepareEphemerals(c *conn, r *request) {
	b := r.Body.(jute.PathRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	r.order = lastOf
	l := &listing{query: tree.Query{Kind: tree.ListEphemerals, Path: b.Path, Owner: uint64(c.token.ID)}}
	c.list(r, l, func(a *session.TreeAnswer) *jute.Encoder {
		e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
		e.Strings(l.names)
		return e
	})
}

// prepareNumber counts all entries below one. It reads list by list, so the sum is no picture of one moment.
func prepareNumber(c *conn, r *request) {
	b := r.Body.(jute.PathRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if !c.valid(r, b.Path) {
		return
	}
	r.order = lastOf
	walk := &walk{left: []*branch{{name: b.Path}}}
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, walk.query()) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(c, a)
		switch {
		case err != nil:
			return nil, false, err
		case code == jute.NoNode && walk.begun, code == jute.NoAuth && walk.begun: // gone, or hidden, meanwhile
			walk.skip()
		case code != jute.OK:
			return jute.Reply(r.Xid, int64(a.Stamp), code), false, nil //nolint:gosec // stamps are positive
		default:
			walk.take(a.Read)
		}
		if len(walk.left) > 0 {
			return nil, true, c.line.hand(r, r.begin)
		}
		e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
		e.Int(walk.count)
		return e, false, nil
	}
}

// walk counts entries. What is below an entry is counted before the next page of its siblings is asked for: so it holds
// a page of names for each level at most, and not all names of a wide tree.
type walk struct {
	left  []*branch
	count int32
	begun bool
}

// branch is an entry whose children are still to be listed, those behind after. The name of the first one is its path.
type branch struct {
	above       *branch
	name, after string
}

func (b *branch) path() string {
	if b.above == nil {
		return b.name
	}
	return tree.Join(b.above.path(), b.name)
}

func (w *walk) query() tree.Query {
	last := w.left[len(w.left)-1]
	return tree.Query{Kind: tree.ListChildren, Path: last.path(), After: last.after, WithStat: true}
}

func (w *walk) skip() { w.left = w.left[:len(w.left)-1] }

func (w *walk) take(a *tree.Answer) {
	w.begun = true
	parent := w.left[len(w.left)-1]
	if parent.after = ""; a.More {
		parent.after = a.Children[len(a.Children)-1].Name
	} else {
		w.skip()
	}
	for _, child := range a.Children {
		if w.count++; child.Stat.Children > 0 {
			w.left = append(w.left, &branch{above: parent, name: child.Name})
		}
	}
}
