package core

import (
	"errors"
	"slices"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// maxLagged is how often a node that is behind what the client has seen is asked before another one is tried. A node
// catches up soon, and leaving it costs a move of all sessions.
const maxLagged = 3

// Read reads the tree. Session is nil for a read without one.
type Read struct {
	Call    *TreeCall
	Session *Session
}

func (in Read) happen(c *Core) {
	call, h := in.Call, in.Session
	f := c.trees()
	switch b := (&readBody{call}); {
	case h == nil:
		f.calls[call] = struct{}{}
		f.reads = append(f.reads, b)
	case !c.holds(h):
		c.done(call, Done{Err: h.err})
	default:
		f.calls[call] = struct{}{}
		branch := c.branchOf(h)
		call.h, call.after = h, branch.called
		branch.reads = append(branch.reads, b)
		c.busy(h)
	}
}

// forgetRead notes that the caller of a read has given up. While no node is in reach callers come and go, and nothing
// is sent that would take their reads out.
func (f *forest) forgetRead(call *TreeCall) {
	switch h := call.h; {
	case h == nil:
		f.reads = withoutGone(f.reads, &f.gone)
	case h.branch != nil:
		h.branch.reads = withoutGone(h.branch.reads, &h.branch.gone)
	}
}

// withoutGone takes out the reads whose callers have given up, once they may be the half of all: one at a time would
// cost a search each.
func withoutGone(reads []*readBody, gone *int) []*readBody {
	if *gone++; *gone <= len(reads)/2 {
		return reads
	}
	*gone = 0
	return slices.DeleteFunc(reads, func(r *readBody) bool { return r.call.settled })
}

// sendReads sends the reads of a session whose earlier writes were all sent (G3). It reports false when there is no
// room for the next one.
func (q *requests) sendReads(h *Session, c *Conn) bool {
	b := h.branch
	for len(b.reads) > 0 {
		r := b.reads[0]
		if w := b.queue.Pending(); !r.call.settled && w != nil {
			if call, ok := w.Body.(*TreeCall); ok && call.after <= r.call.after {
				return true
			}
		}
		if c.window.OutBeside() >= maxReads || q.forest.watches.behind(c) || r.call.Watch != nil && c != q.cur {
			return false
		}
		b.reads = slices.Delete(b.reads, 0, 1)
		if !r.call.settled {
			q.beside(c, r)
		}
	}
	return true
}

// tendReads sends the reads without a session. While watches are owed events of a former connection, reads wait: an
// answer would come before the events that it shows (I13).
func (q *requests) tendReads() {
	f, c := q.forest, q.cur
	if c == nil || !c.up || len(f.reads) == 0 || !q.knowsState(c) {
		return
	}
	for len(f.reads) > 0 && c.window.OutBeside() < maxReads && !f.watches.behind(c) {
		r := f.reads[0]
		f.reads = slices.Delete(f.reads, 0, 1)
		if !r.call.settled {
			q.beside(c, r)
		}
	}
}

// readBody is a read of the tree.
type readBody struct{ call *TreeCall }

// Wanted is false once the caller was answered.
func (b *readBody) Wanted() bool { return !b.call.settled }

func (b *readBody) message(l *ledger, seq uint64) *holdfastv1.ClientMessage {
	q := b.call.Query
	q.Options.Seen, q.Watch = max(q.Options.Seen, l.effects.Stamp), b.call.Watch != nil
	if b.call.h != nil {
		q.Session = uint64(b.call.h.id)
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Read{Read: wire.QueryProto(seq, q)}}
}

func (a *answers) read(c *Conn, b *readBody, m *holdfastv1.TreeAnswer) {
	call := b.call
	found, err := wire.TreeAnswerFrom(m)
	if err == nil && found.Kind != call.Query.Kind {
		err = &session.FieldError{Field: "answer", Limit: "of the kind that was asked for"}
	}
	a.toldUpTo(c, found.Stamp)
	if len(a.sessions) == 0 || call.Query.Options.Linearizable {
		a.served(c)
	}
	if h := call.h; h != nil {
		a.busy(h) // there is room for the next read
	}
	if a.overtook(call) {
		a.readAgain(b)
		return
	}
	switch {
	case call.Watch == nil || err != nil:
	case call.settled:
		a.watchUnwanted(c, call, found)
	default:
		a.watchSet(c, call, found)
	}
	a.done(call, Done{Answer: found, Err: err})
}

func (a *answers) readRefused(c *Conn, r *window.Request, b *readBody, err error) {
	call, h := b.call, b.call.h
	if call.settled {
		return
	}
	before := call.last
	call.last = err
	switch {
	case h != nil && (errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrExpired)):
		a.readElsewhere(c, r, b, err)
	case errors.Is(err, session.ErrLagging):
		a.pause(c, r, err)
		if call.lagged++; call.lagged%maxLagged == 0 {
			a.leave(c, err)
		}
	case route.Judge(err) == route.Final && a.overtook(call):
		call.last = before // the node's word on the entry is older than the write, and stands in nobody's way
		a.readAgain(b)
	case route.Judge(err) == route.Final:
		a.done(call, Done{Err: err})
	case route.Judge(err) == route.Elsewhere:
		a.pause(c, r, err)
		a.leave(c, err)
	default:
		a.pause(c, r, err)
	}
}

// overtook reports whether an answer to a read may be older than an earlier write of its session (G3): the write has
// none, so its node has refused it for now, or with an attachment that the node serves no more, and it is sent again.
func (a *answers) overtook(call *TreeCall) bool {
	if call.h == nil || call.settled || !a.holds(call.h) {
		return false
	}
	w := call.h.branch.queue.Oldest()
	if w == nil {
		return false
	}
	earlier, ok := w.Body.(*TreeCall)
	return ok && earlier.after <= call.after
}

// readElsewhere handles the refusal of a session's read because c does not serve the session.
func (a *answers) readElsewhere(c *Conn, r *window.Request, b *readBody, err error) {
	h := b.call.h
	if h.on == c && r.Seq > h.since {
		if errors.Is(err, session.ErrExpired) {
			a.expired(h, err)
		} else {
			a.moved(h, c, holder(err))
		}
	}
	a.readAgain(b)
}

// kindSet returns the kind of the watch that a read with a watch has set (V4).
func kindSet(q tree.Query, found tree.Answer) tree.WatchKind {
	kind := q.WatchKind()
	if kind == tree.WatchExists && found.Exists {
		return tree.WatchData
	}
	return kind
}
