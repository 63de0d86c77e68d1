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
	// itemBytes and itemBatch bound the bytes and the number of the tree's items that are joined to one message. A
	// larger item goes alone.
	itemBytes = 256 << 10
	itemBatch = 1024
)

// treeWriter is a writer's state for the tree.
type treeWriter struct {
	batch []outgoing
	// held is an item that did not fit into the previous message. heldStamp is its stamp for treePart.delivered.
	held      outgoing
	heldStamp uint64
	// readTimer is nil before the first message of the tree.
	readTimer *readTimer
}

// sendTree takes items from the node that fit into one message, in the node's order, and sends them. It reports whether
// there were any. The rest stays with the node, which bounds it (V6 LOST, G9 answer bounds). When the queue is closed,
// sendTree sends only held: all requests are answered then.
//
//nolint:revive // flag-parameter: it is the outbox's
func (w *writer) sendTree(ctx context.Context, closed bool, send func(m any) error) (bool, error) {
	part := w.c.tree.get()
	if part == nil {
		return false, nil
	}
	delivered, bytes := w.addHeld()
	if !closed {
		delivered, bytes = w.addTree(part, delivered, bytes)
	}
	if len(w.tree.batch) == 0 {
		return false, nil
	}
	w.c.network.Add(bytes)
	defer w.c.network.Add(-bytes)
	if err := w.send(ctx, w.tree.batch, send); err != nil {
		return false, err
	}
	part.rise(delivered)
	w.tree.batch = w.tree.batch[:0]
	if cap(w.tree.batch) > keptTreeRequests {
		w.tree.batch = nil
	}
	return true, nil
}

// rise records that the client was sent all events up to a stamp.
func (p *treePart) rise(delivered uint64) {
	if delivered > p.delivered.Load() {
		p.delivered.Store(delivered)
	}
}

// addHeld begins the batch with the held item. It returns the batch's size, and the stamp up to which the client has
// all events once the batch is sent.
func (w *writer) addHeld() (delivered uint64, bytes int) {
	t := &w.tree
	if t.held.message == nil {
		return 0, 0
	}
	t.batch, delivered, bytes = append(t.batch, t.held), t.heldStamp, t.held.bytes
	t.held, t.heldStamp = outgoing{}, 0
	return delivered, bytes
}

// addTree adds items to the batch. It returns the same values as addHeld.
func (w *writer) addTree(part *treePart, delivered uint64, bytes int) (uint64, int) {
	t := &w.tree
	for len(t.batch) < itemBatch && bytes < itemBytes {
		next, ok := part.conn.Next(time.Now())
		if !ok {
			break
		}
		m := w.message(&next)
		if m == nil { // an answer without a request
			continue
		}
		o := outgoing{message: m, bytes: weight(m)}
		if bytes > 0 && bytes+o.bytes > itemBytes {
			t.held, t.heldStamp = o, uint64(next.Delivered)
			break
		}
		t.add(o)
		bytes, delivered = bytes+o.bytes, max(delivered, uint64(next.Delivered))
	}
	return delivered, bytes
}

// add adds an item to the batch. It joins events to the events before them, unless their stamps would fall: a client
// refuses such a message, and ends its stream.
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

// message converts the node's item to a message to the client; nil for none.
func (w *writer) message(t *session.TreeMessage) *holdfastv1.ServerMessage {
	switch {
	case t.Answer != nil:
		return w.answer(t.Answer)
	case len(t.Events) > 0:
		w.c.server.stats.tree.events.Add(uint64(len(t.Events)))
		if delivered := w.c.server.cfg.OnDelivered; delivered != nil {
			for i := range t.Events {
				delivered(t.Events[i].Stamp.Index())
			}
		}
		return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Events{Events: wire.EventsProto(t.Events)}}
	case t.Lost:
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Lost{Lost: &holdfastv1.Lost{Stamp: uint64(t.Delivered)}},
		}
	default:
		return &holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Progress{Progress: &holdfastv1.Progress{Stamp: uint64(t.Delivered)}},
		}
	}
}

// answer returns the answer to a request. It does not report that some events of resumed watches are missing: a LOST
// before it has (V4 resumed watches).
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

// readTimer ends the stream of a client that reads nothing of the tree for a part of its sessions' timeouts while the
// node has items for it (G9). It checks only while gRPC does not accept a message: otherwise the writer makes progress.
type readTimer struct {
	c    *connection
	part *treePart
	// limit is the longest time for which the client may read nothing; 0 while nothing is being sent.
	limit atomic.Int64
	timer *time.Timer
}

// treeReadTimer returns the writer's readTimer; nil while the stream has no treePart.
func (w *writer) treeReadTimer() *readTimer {
	if w.c == nil || w.tree.readTimer != nil {
		return w.tree.readTimer
	}
	if part := w.c.tree.get(); part != nil {
		g := &readTimer{c: w.c, part: part}
		g.timer = time.AfterFunc(w.out.readTimeout, g.check)
		g.timer.Stop()
		w.tree.readTimer = g
	}
	return w.tree.readTimer
}

// arm begins to watch a message. slow is extra time for the client.
func (g *readTimer) arm(slow time.Duration) {
	if g != nil {
		limit := g.c.shortest.part(stuckPart, g.c.server.cfg.ReadTimeout) + slow
		g.limit.Store(int64(limit))
		g.timer.Reset(limit)
	}
}

func (g *readTimer) disarm() {
	if g != nil {
		g.limit.Store(0)
		g.timer.Stop()
	}
}

// check ends the stream, or sets the timer for the next check.
func (g *readTimer) check() {
	limit := time.Duration(g.limit.Load())
	if limit == 0 {
		return // gRPC has accepted the message
	}
	if stuck := g.part.conn.Stuck(time.Now()); stuck < limit {
		g.timer.Reset(limit - stuck)
		return
	}
	g.c.server.stats.tree.stuck.Add(1)
	g.c.out.starved(limit)
}
