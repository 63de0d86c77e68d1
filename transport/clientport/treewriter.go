package clientport

import (
	"context"
	"sync/atomic"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

const (
	// toldBytes is how many bytes of what the node tells of the tree are joined to one message, toldBatch how many items.
	// An item that is larger goes alone.
	toldBytes = 256 << 10
	toldBatch = 1024
)

// treeWriter is what a writer keeps of the tree.
type treeWriter struct {
	batch []outgoing
	// held did not fit into the message before. It is told up to heldTold.
	held     outgoing
	heldTold uint64
	// guard is nil before the first message of the tree.
	guard *treeGuard
}

// sendTree takes from the node what fits into one message, in the order in which the node tells it, and sends that. It
// reports whether there was anything. The rest stays with the node, which bounds it (V6, G9). When the queue is closed
// it sends no more than what was taken before: all requests are answered then.
//
//nolint:revive // flag-parameters: both are the outbox's
func (w *writer) sendTree(ctx context.Context, joined, closed bool, send func(m any) error) (bool, error) {
	part := w.c.tree.get()
	if part == nil {
		return false, nil
	}
	told, bytes := w.takeHeld()
	if !closed {
		told, bytes = w.takeTree(part, told, bytes)
	}
	if len(w.tree.batch) == 0 {
		return false, nil
	}
	w.c.network.Add(bytes)
	defer w.c.network.Add(-bytes)
	if err := w.send(ctx, w.tree.batch, joined, send); err != nil {
		return false, err
	}
	part.rise(told)
	w.tree.batch = w.tree.batch[:0]
	if cap(w.tree.batch) > keptTreeRequests {
		w.tree.batch = nil
	}
	return true, nil
}

// rise notes that the client was sent everything up to a stamp.
func (p *treePart) rise(told uint64) {
	if told > p.told.Load() {
		p.told.Store(told)
	}
}

// takeHeld begins the batch with what did not fit into the one before. It returns the stamp up to which the client has
// been told everything once the batch is sent, and the batch's size.
func (w *writer) takeHeld() (told uint64, bytes int) {
	t := &w.tree
	if t.held.message == nil {
		return 0, 0
	}
	t.batch, told, bytes = append(t.batch, t.held), t.heldTold, t.held.bytes
	t.held, t.heldTold = outgoing{}, 0
	return told, bytes
}

// takeTree adds to the batch, and returns what takeHeld does.
func (w *writer) takeTree(part *treePart, told uint64, bytes int) (uint64, int) {
	t := &w.tree
	for len(t.batch) < toldBatch && bytes < toldBytes {
		next, ok := part.conn.Next(time.Now())
		if !ok {
			break
		}
		m := w.message(&next)
		if m == nil { // the answer to no request
			continue
		}
		o := outgoing{message: m, bytes: weight(m)}
		if bytes > 0 && bytes+o.bytes > toldBytes {
			t.held, t.heldTold = o, uint64(next.Told)
			break
		}
		t.add(o)
		bytes, told = bytes+o.bytes, max(told, uint64(next.Told))
	}
	return told, bytes
}

// add adds an item to the batch. Events join those before them, unless their stamps would fall: a client refuses such a
// message, and its stream.
func (t *treeWriter) add(o outgoing) {
	if n, more := len(t.batch), o.message.GetEvents().GetEvents(); n > 0 && len(more) > 0 {
		former := t.batch[n-1].message.GetEvents()
		if old := former.GetEvents(); len(old) > 0 && old[len(old)-1].GetStamp() <= more[0].GetStamp() {
			former.Events = append(old, more...)
			t.batch[n-1].bytes += o.bytes
			return
		}
	}
	t.batch = append(t.batch, o)
}

// message returns what the node tells in the form in which the client is told it; nil for nothing.
func (w *writer) message(t *session.TreeTold) *holdfastv1.ServerMessage {
	switch {
	case t.Answer != nil:
		return w.answer(t.Answer)
	case len(t.Events) > 0:
		w.c.server.stats.tree.events.Add(uint64(len(t.Events)))
		if told := w.c.server.cfg.Told; told != nil {
			for i := range t.Events {
				told(t.Events[i].Stamp.Index())
			}
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Events{Events: wire.EventsProto(t.Events)}}
	case t.Lost:
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Lost{Lost: &holdfastv1.Lost{Stamp: uint64(t.Told)}},
		}
	default:
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Told{Told: &holdfastv1.Told{Stamp: uint64(t.Told)}},
		}
	}
}

// answer returns the answer to a request. That watches were added too late to be told everything is no part of it: a
// LOST before it has said so (V4).
func (w *writer) answer(a *session.TreeAnswer) *holdfastv1.ServerMessage {
	q, ok := w.c.streamState.endTree(a.Key)
	err := a.Err
	switch {
	case !ok:
		return nil
	case err == nil && (q.kind == treeReads && a.Read == nil || q.kind == treeWrites && a.Wrote == nil):
		err = errNoAnswer
	}
	if err != nil {
		w.c.server.port.Note(wire.ConnectMethod, err)
		w.c.server.stats.failed.Add(1)
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(q.seq, err)}}
	}
	switch q.kind {
	case treeReads:
		found := *a.Read
		found.Stamp = a.Stamp
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Read{Read: wire.TreeAnswerProto(q.seq, found)},
		}
	case treeWrites:
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Written{Written: wire.WrittenProto(q.seq, *a.Wrote)},
		}
	case treeAdds:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesAdded{
			WatchesAdded: &holdfastv1.WatchesAdded{Seq: q.seq, Stamp: uint64(a.Stamp)},
		}}
	case treeRemoves:
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_WatchesRemoved{
			WatchesRemoved: &holdfastv1.WatchesRemoved{Seq: q.seq, Removed: uint32(a.Removed)},
		}}
	default:
		return nil
	}
}

// treeGuard ends the stream of a client that takes nothing while the node has something to tell of the tree, a part of
// its sessions' timeouts long (G9). It looks only while gRPC does not take a message: otherwise the writer takes.
type treeGuard struct {
	c    *connection
	part *treePart
	// limit is how long the client may take nothing, 0 while nothing is sent.
	limit atomic.Int64
	timer *time.Timer
}

// guard returns the guard of the writer, nil as long as the stream has no tree.
func (w *writer) guard() *treeGuard {
	if w.c == nil || w.tree.guard != nil {
		return w.tree.guard
	}
	if part := w.c.tree.get(); part != nil {
		g := &treeGuard{c: w.c, part: part}
		g.timer = time.AfterFunc(w.out.patience, g.look)
		g.timer.Stop()
		w.tree.guard = g
	}
	return w.tree.guard
}

// arm begins to watch over a message whose client may take a moment longer.
func (g *treeGuard) arm(slow time.Duration) {
	if g != nil {
		limit := g.c.shortest.part(stuckPart, g.c.server.cfg.Patience) + slow
		g.limit.Store(int64(limit))
		g.timer.Reset(limit)
	}
}

func (g *treeGuard) disarm() {
	if g != nil {
		g.limit.Store(0)
		g.timer.Stop()
	}
}

// look ends the stream, or looks again once it may be time.
func (g *treeGuard) look() {
	limit := time.Duration(g.limit.Load())
	if limit == 0 {
		return // the message was taken meanwhile
	}
	if stuck := g.part.conn.Stuck(time.Now()); stuck < limit {
		g.timer.Reset(limit - stuck)
		return
	}
	g.c.server.stats.tree.stuck.Add(1)
	g.c.out.starved(limit)
}
