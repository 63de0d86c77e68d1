package operations

import (
	"strings"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// readOverhead is the approximate memory of a waiting read, besides its path.
const readOverhead = 256

// submit hands a read to the node, in the order of the session's requests (G3 order in a session).
func (h *Handler) submit(r *queue.Request, key uint64, q tree.Query) error {
	q.Session = uint64(h.token.ID)
	q.Options.AllowStale = h.token.Local // its client accepts a read-only server (Z9 read-only)
	if q.PageSize == 0 && (q.Kind == tree.ListChildren || q.Kind == tree.ListEphemerals) {
		q.PageSize = tree.MaxPage
	}
	return h.tree.Read(session.TreeRead{Key: key, Query: q, Bytes: r.Bytes + readOverhead})
}

// readOnce makes a request of one read. record appends the record of the reply, whose header has OK.
func (h *Handler) readOnce(r *queue.Request, q tree.Query, record func(e *jute.Encoder, a *tree.Answer)) {
	r.Repeatable = !q.Watch
	r.Send = func(key uint64) error { return h.submit(r, key, q) }
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		code, err := h.readCode(a)
		if err != nil {
			return nil, nil, err
		}
		e := replyTo(r, a, code)
		if code == jute.OK {
			record(e, a.Read)
		}
		return e, nil, nil
	}
}

// readEntry is readOnce with the record of the operation's row.
func (h *Handler) readEntry(r *queue.Request, q tree.Query, of func(a *tree.Answer) entry) {
	record := h.table[r.Op].record
	h.readOnce(r, q, func(e *jute.Encoder, a *tree.Answer) {
		v := of(a)
		record(e, &v)
	})
}

// canExist refuses a read of an invalid path like ZooKeeper, which searches for the entry and finds none.
func (h *Handler) canExist(r *queue.Request, path string) bool {
	if tree.CheckPath(path) != nil {
		h.refuse(r, jute.NoNode)
		return false
	}
	return true
}

func (h *Handler) exists(r *queue.Request, b jute.WatchRequest) {
	if strings.Contains(b.Path, "\x00") {
		h.refuse(r, jute.BadArguments)
		return
	}
	if !h.canExist(r, b.Path) {
		return
	}
	q := tree.Query{Kind: tree.GetStat, Path: b.Path, Watch: b.Watch, SkipReadCheck: true}
	h.readEntry(r, q, func(a *tree.Answer) entry { return entry{stat: statOf(a.Stat)} })
	reply := r.Reply
	r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
		if a.Err == nil && !a.Read.Exists { // the watch stays
			return replyTo(r, a, jute.NoNode), nil, nil
		}
		return reply(a)
	}
}

func (h *Handler) getData(r *queue.Request, b jute.WatchRequest) {
	if h.canExist(r, b.Path) {
		h.readEntry(r, tree.Query{Kind: tree.GetEntry, Path: b.Path, Watch: b.Watch}, func(a *tree.Answer) entry {
			return entry{data: a.Data, stat: statOf(a.Stat)}
		})
	}
}

func (h *Handler) getACL(r *queue.Request, b jute.PathRequest) {
	if h.canExist(r, b.Path) {
		h.readEntry(r, tree.Query{Kind: tree.GetACL, Path: b.Path}, func(a *tree.Answer) entry {
			return entry{acl: grantsOf(a.ACL), stat: statOf(a.Stat)}
		})
	}
}

// sync is answered once the node shows everything that was committed anywhere when the sync came. ZooKeeper's sync
// promises less: a deposed leader may answer it (W-11).
func (h *Handler) sync(r *queue.Request, b jute.PathRequest) {
	q := tree.Query{Kind: tree.Sync, Options: tree.ReadOptions{Linearizable: true}}
	h.readOnce(r, q, func(e *jute.Encoder, _ *tree.Answer) { e.String(b.Path) })
}
