package zk

import (
	"slices"
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
		code, err := codeOfAnswer(a)
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

// codeOfAnswer returns the code of an answer to a read. The error ends the connection.
func codeOfAnswer(a *session.TreeAnswer) (jute.Code, error) {
	if a.Err == nil {
		return jute.OK, nil
	}
	if code, ok := codeOf(a.Err); ok {
		return code, nil
	}
	return 0, a.Err
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

// configPath is the entry that names the members of the ensemble (Z8).
const configPath = "/zookeeper/config"

func prepareGetData(c *conn, r *request) {
	b := r.Body.(jute.WatchRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if b.Path == configPath {
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			text := c.server.cfg.Members()
			e.Buffer([]byte(text))
			e.Stat(jute.Stat{ACLVersion: -1, DataLength: int32(len(text))}) //nolint:gosec // some addresses
			return e
		})
		return
	}
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
// between them; otherwise it begins anew. The watch is that of the last page.
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
	// as is the change of children as of the first page.
	as tree.Stamp
}

// take adds a page. It reports whether another one is to be read.
func (l *listing) take(a *tree.Answer) (more bool) {
	if l.query.After == "" {
		l.as, l.names = a.Stat.ChildrenModified, l.names[:0]
	}
	for _, child := range a.Children {
		l.names = append(l.names, child.Name)
	}
	l.names = append(l.names, a.Paths...)
	switch {
	case l.query.Kind == tree.ListChildren && a.Stat.ChildrenModified != l.as:
		l.query.After = ""
		return true
	case a.More:
		l.query.After = l.names[len(l.names)-1]
		return true
	}
	return false
}

// list makes a request of as many reads as a list takes.
func (c *conn) list(r *request, l *listing, reply func(a *session.TreeAnswer) *jute.Encoder) {
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, l.query) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(a)
		switch {
		case err != nil:
			return nil, false, err
		case code != jute.OK:
			return jute.Reply(r.Xid, int64(a.Stamp), code), false, nil //nolint:gosec // stamps are positive
		case l.take(a.Read):
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
	walk := &walk{paths: []string{b.Path}}
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, walk.query()) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(a)
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
		if len(walk.paths) > 0 {
			return nil, true, c.line.hand(r, r.begin)
		}
		e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
		e.Int(walk.count)
		return e, false, nil
	}
}

// walk counts entries. paths are those whose children are still to be listed.
type walk struct {
	paths []string
	after string
	count int32
	begun bool
}

func (w *walk) query() tree.Query {
	return tree.Query{Kind: tree.ListChildren, Path: w.paths[len(w.paths)-1], After: w.after, WithStat: true}
}

func (w *walk) skip() { w.paths, w.after = w.paths[:len(w.paths)-1], "" }

func (w *walk) take(a *tree.Answer) {
	w.begun = true
	parent := w.paths[len(w.paths)-1]
	below := make([]string, 0, len(a.Children))
	for _, child := range a.Children {
		if w.count++; child.Stat.Children > 0 {
			below = append(below, strings.TrimSuffix(parent, "/")+"/"+child.Name)
		}
	}
	if a.More {
		w.after = a.Children[len(a.Children)-1].Name
		w.paths = slices.Insert(w.paths, len(w.paths)-1, below...)
		return
	}
	w.skip()
	w.paths = append(w.paths, below...)
}

// prepareMultiRead reads several entries, each by itself: what one is refused costs the others nothing (N-33).
func prepareMultiRead(c *conn, r *request) {
	b := r.Body.(jute.MultiRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if !b.Of(jute.MultiRead) {
		c.refuse(r, jute.MarshallingError)
		return
	}
	if len(b.Ops) == 0 {
		c.inTurn(r, func(zxid int64) *jute.Encoder {
			e := jute.Reply(r.Xid, zxid, jute.OK)
			e.MultiEnd()
			return e
		})
		return
	}
	r.order = lastOf
	var body jute.Encoder
	at, list := 0, listing{query: queryOf(b.Ops[0])}
	r.begin = func(r *request, key uint64) error { return c.ask(r, key, list.query) }
	r.answer = func(r *request, a *session.TreeAnswer) (*jute.Encoder, bool, error) {
		code, err := codeOfAnswer(a)
		op := b.Ops[at].Op
		switch {
		case err != nil:
			return nil, false, err
		case code != jute.OK:
			body.MultiError(code)
		case op == jute.GetData:
			body.MultiHeader(jute.MultiHeader{Op: op})
			body.Buffer(a.Read.Data)
			body.Stat(statOf(a.Read.Stat))
		case list.take(a.Read):
			return nil, true, c.line.hand(r, r.begin)
		default:
			body.MultiHeader(jute.MultiHeader{Op: op})
			body.Strings(list.names)
		}
		if at++; at < len(b.Ops) {
			list = listing{query: queryOf(b.Ops[at])}
			return nil, true, c.line.hand(r, r.begin)
		}
		body.MultiEnd()
		e := jute.Reply(r.Xid, int64(a.Stamp), jute.OK) //nolint:gosec // stamps are positive
		e.Append(body.Bytes())
		return e, false, nil
	}
}

// queryOf returns the read of an element of a multiRead.
func queryOf(o jute.Request) tree.Query {
	b := o.Body.(jute.WatchRequest) //nolint:errcheck,forcetypeassert // the codec's own table
	if o.Op == jute.GetData {
		return tree.Query{Kind: tree.GetEntry, Path: b.Path}
	}
	return tree.Query{Kind: tree.ListChildren, Path: b.Path}
}
