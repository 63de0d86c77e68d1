package tree

import (
	"context"
	"iter"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// maxSessionBatch bounds the changes of sessions that are sent together.
const maxSessionBatch = 256

// WatchSessions calls send with the opens, moves and ends of global sessions (V8 events need READ), in the order of
// their stamps, until ctx ends, send returns an error, or the node is cut off (see readError). The first batch comes at
// once. For a watcher that wants only new events it is a single stamp, and only later events can be lost.
func (s *Service) WatchSessions(
	ctx context.Context, w session.SessionWatch, send func([]session.SessionEvent) error,
) error {
	if err := s.mayWatchSessions(ctx, w); err != nil {
		return err
	}
	t := sessionWatcher{service: s, send: send, read: w.Since, due: true, allowsOld: w.Options.AllowStale}
	if t.read == 0 {
		if err := t.begin(); err != nil {
			return err
		}
	}
	quiet := time.NewTicker(watch.QuietAfter)
	defer quiet.Stop()
	for {
		next := s.applied.wait()
		if err := t.on(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next:
		case <-quiet.C:
			if err := t.readError(); err != nil {
				return err
			}
			t.due = true
		}
	}
}

// mayWatchSessions waits until the node shows what the client has seen, and refuses like reads of the tree.
func (s *Service) mayWatchSessions(ctx context.Context, w session.SessionWatch) error {
	if err := s.notFounded(); err != nil {
		return err
	}
	if why := s.cfg.Node.ReadError(); why != nil && !w.Options.AllowStale {
		return why
	}
	return s.reach(ctx, max(w.Since, w.Options.Seen).Index())
}

// reach waits until the published state has reached an index, for as long as a request may wait (M5 lagging, not
// expired).
func (s *Service) reach(ctx context.Context, index uint64) error {
	over := time.NewTimer(s.cfg.Wait)
	defer over.Stop()
	for {
		next := s.applied.wait()
		if s.hub.Shown().Index >= index {
			return nil
		}
		select {
		case <-next:
		case <-over.C:
			return session.ErrLagging
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sessionWatcher serves one watcher of sessions.
type sessionWatcher struct {
	service *Service
	send    func([]session.SessionEvent) error
	// read is the stamp up to which the ring was read, sent the newest stamp that was sent.
	read, sent tree.Stamp
	// due says that a single stamp must be sent.
	due bool
	// allowsOld says that the watcher accepts old events. fell says that the last check gave a read error.
	allowsOld, fell bool
}

// readError returns why the watch ends: two checks in a row gave a read error, so the node may miss all changes (G6
// stale nodes refuse). The watcher can continue at another node. A single check may fall into an election, after which
// all watchers would come again at once.
func (t *sessionWatcher) readError() error {
	why := t.service.cfg.Node.ReadError()
	if why == nil || t.allowsOld {
		t.fell = false
		return nil
	}
	if !t.fell {
		t.fell = true
		return nil
	}
	return why
}

// begin sends the stamp after which all events are sent.
func (t *sessionWatcher) begin() error {
	t.read = watch.End(t.service.hub.Shown().Index)
	t.sent, t.due = t.read, false
	return t.send([]session.SessionEvent{{Stamp: t.read}})
}

// changes returns the changes since read, up to a stamp; false if the ring does not have all of them.
func (t *sessionWatcher) changes(to tree.Stamp) (iter.Seq[*session.Change], bool) {
	if to == t.read { // the ring may already have dropped this stamp for changes that are not shown yet
		return func(func(*session.Change) bool) {}, true
	}
	return t.service.hub.Sessions().Range(t.read, to)
}

// on sends the changes since read. Without changes, it sends the newest stamp when that is due.
func (t *sessionWatcher) on() error {
	to := max(t.read, watch.End(t.service.hub.Shown().Index))
	changes, whole := t.changes(to)
	if !whole {
		t.read, t.sent = to, to
		return t.send([]session.SessionEvent{{Stamp: to, Lost: true}})
	}
	var batch []session.SessionEvent
	for c := range changes {
		change := *c
		if batch = append(batch, session.SessionEvent{Stamp: c.Stamp, Change: &change}); len(batch) < maxSessionBatch {
			continue
		}
		if err := t.send(batch); err != nil {
			return err
		}
		batch, t.due = nil, true
	}
	t.read = to
	if len(batch) == 0 && (!t.due || to == t.sent) {
		return nil
	}
	t.sent, t.due = to, false
	return t.send(append(batch, session.SessionEvent{Stamp: to}))
}
