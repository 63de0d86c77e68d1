package operations

import (
	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// lengthBytes precede a string or a buffer.
const lengthBytes = 4

// list is a list that is read page by page.
type list struct {
	query tree.Query
	names []string
	// bytes is the size of the names in a reply.
	bytes int
	// asOf is the newest change of children as of the first page, restarts how often the list was restarted.
	asOf     tree.Stamp
	restarts int
}

// maxRestarts is how often a list is restarted. The last time the node reads the whole list from one state. Without
// this bound, a list that changes during each of its reads would never be answered, nor would later requests. No list
// starts with a whole read, which needs much of the node's memory for answers (G9 answer bounds).
const maxRestarts = 3

// add adds a page. It reports whether another page follows.
func (l *list) add(a *tree.Answer) (more bool) {
	if l.query.After == "" {
		l.asOf, l.names, l.bytes = a.Stat.ChildrenModified, l.names[:0], 0
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
	case l.query.Kind == tree.ListChildren && a.Stat.ChildrenModified != l.asOf:
		l.query.After, l.restarts = "", l.restarts+1
		l.query.Whole = l.restarts >= maxRestarts
		return true
	case a.More:
		l.query.After = l.names[len(l.names)-1]
		return true
	}
	return false
}

// readList makes a request of as many reads as a list needs.
func (h *Handler) readList(r *queue.Request, l *list, record func(e *jute.Encoder, a *session.TreeAnswer)) {
	r.Send = func(key uint64) error { return h.submit(r, key, l.query) }
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		code, err := h.readCode(a)
		switch {
		case err != nil:
			return nil, nil, err
		case code != jute.OK:
			return replyTo(r, a, code), nil, nil
		case l.add(a.Read):
			return nil, &queue.Step{Send: r.Send, Gathered: l.bytes}, nil
		}
		e := replyTo(r, a, jute.OK)
		record(e, a)
		return e, nil, nil
	}
}

// getChildren lists children, page by page if there are many. The pages form one list if no child was created or
// deleted between them; otherwise the list is restarted. The last page sets the watch.
func (h *Handler) getChildren(r *queue.Request, b jute.WatchRequest) {
	if !h.canExist(r, b.Path) {
		return
	}
	if r.Order, r.Repeatable = queue.Paged, !b.Watch; b.Watch {
		r.Order = queue.Barrier
	}
	l := &list{query: tree.Query{Kind: tree.ListChildren, Path: b.Path, Watch: b.Watch}}
	record := h.table[r.Op].record
	h.readList(r, l, func(e *jute.Encoder, a *session.TreeAnswer) {
		record(e, &entry{names: l.names, stat: statOf(a.Read.Stat)})
	})
}

// getEphemerals lists the session's ephemerals whose paths have a prefix (W-21).
func (h *Handler) getEphemerals(r *queue.Request, b jute.PathRequest) {
	r.Order = queue.Barrier
	l := &list{query: tree.Query{Kind: tree.ListEphemerals, Path: b.Path, Owner: uint64(h.token.ID)}}
	h.readList(r, l, func(e *jute.Encoder, _ *session.TreeAnswer) { e.Strings(l.names) })
}

// getChildrenNumber counts all entries below an entry. The entries are read list by list, so the sum does not reflect
// one moment.
func (h *Handler) getChildrenNumber(r *queue.Request, b jute.PathRequest) {
	if !h.canExist(r, b.Path) {
		return
	}
	r.Order = queue.Barrier
	w := &walk{left: []*branch{{name: b.Path}}}
	record := h.table[r.Op].record
	r.Send = func(key uint64) error { return h.submit(r, key, w.query()) }
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		code, err := h.readCode(a)
		switch {
		case err != nil:
			return nil, nil, err
		case w.started && (code == jute.NoNode || code == jute.NoAuth): // deleted or hidden meanwhile
			w.skip()
		case code != jute.OK:
			return replyTo(r, a, code), nil, nil
		default:
			w.add(a.Read)
		}
		if len(w.left) > 0 {
			return nil, &queue.Step{Send: r.Send}, nil
		}
		e := replyTo(r, a, jute.OK)
		record(e, &entry{count: w.count})
		return e, nil, nil
	}
}

// walk counts entries. It counts the entries below a child before it asks for the next page of the child's siblings: so
// it holds at most a page of names for each level, rather than all names of a wide tree.
type walk struct {
	left    []*branch
	count   int32
	started bool
}

// branch is an entry whose children after the name after are still to be listed. The name of the first branch is its
// path.
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

// add counts a page of children.
func (w *walk) add(a *tree.Answer) {
	w.started = true
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
