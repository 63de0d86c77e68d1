package namespace

import (
	"context"
	"iter"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// maxSessionBatch is how many changes of sessions are told together, at most.
const maxSessionBatch = 256

// WatchSessions tells of global sessions that are opened, moved and ended (V8), in the order of their stamps, until ctx
// ends, tell returns an error, or the node is cut off (see stands). The first batch is told at once. For a watcher
// that asks for what comes from now on it is a stamp alone, and only what comes behind that can be lost.
func (s *Service) WatchSessions(
	ctx context.Context, w session.SessionWatch, tell func([]session.SessionTold) error,
) error {
	if err := s.mayWatchSessions(ctx, w); err != nil {
		return err
	}
	t := teller{service: s, tell: tell, read: w.Since, due: true, takesOld: w.Options.AllowStale}
	if t.read == 0 {
		if err := t.begin(); err != nil {
			return err
		}
	}
	quiet := time.NewTicker(watch.QuietAfter)
	defer quiet.Stop()
	for {
		next := s.told.wait()
		if err := t.on(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next:
		case <-quiet.C:
			if err := t.stands(); err != nil {
				return err
			}
			t.due = true
		}
	}
}

// mayWatchSessions waits until the node shows what the client has seen, and refuses as reads of the tree are refused.
func (s *Service) mayWatchSessions(ctx context.Context, w session.SessionWatch) error {
	if err := s.notFounded(); err != nil {
		return err
	}
	if why := s.cfg.Node.Standing(); why != nil && !w.Options.AllowStale {
		return why
	}
	return s.reach(ctx, max(w.Since, w.Options.Seen).Index())
}

// reach waits until the published state has an index, for as long as a request may wait (M5).
func (s *Service) reach(ctx context.Context, index uint64) error {
	over := time.NewTimer(s.cfg.Wait)
	defer over.Stop()
	for {
		next := s.told.wait()
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

// teller tells one watcher of sessions.
type teller struct {
	service *Service
	tell    func([]session.SessionTold) error
	// read is the stamp up to which the ring was read, told the newest one that was told.
	read, told tree.Stamp
	// due says that a stamp alone is to be told.
	due bool
	// takesOld says that the watcher takes what is old. fell says that the node had no standing at the last look.
	takesOld, fell bool
}

// stands returns why the watch ends: the node has had no standing at two looks in a row, and may know of nothing that
// happens (G6). The watcher can go on at another node. A single look may meet an election, after which all watchers
// would come again at once.
func (t *teller) stands() error {
	why := t.service.cfg.Node.Standing()
	if why == nil || t.takesOld {
		t.fell = false
		return nil
	}
	if !t.fell {
		t.fell = true
		return nil
	}
	return why
}

// begin tells the stamp above which everything is told.
func (t *teller) begin() error {
	t.read = watch.End(t.service.hub.Shown().Index)
	t.told, t.due = t.read, false
	return t.tell([]session.SessionTold{{Stamp: t.read}})
}

// changes returns what has happened since, up to a stamp; false if the ring does not have all of it.
func (t *teller) changes(to tree.Stamp) (iter.Seq[*watch.SessionChange], bool) {
	if to == t.read { // the ring may already have dropped it for what is not shown yet
		return func(func(*watch.SessionChange) bool) {}, true
	}
	return t.service.hub.Sessions().Range(t.read, to)
}

// on tells what has happened since. If that is nothing, it tells the newest stamp when that is due.
func (t *teller) on() error {
	to := max(t.read, watch.End(t.service.hub.Shown().Index))
	changes, whole := t.changes(to)
	if !whole {
		t.read, t.told = to, to
		return t.tell([]session.SessionTold{{Stamp: to, Lost: true}})
	}
	var batch []session.SessionTold
	for c := range changes {
		change := c.Change
		if batch = append(batch, session.SessionTold{Stamp: c.Stamp, Change: &change}); len(batch) < maxSessionBatch {
			continue
		}
		if err := t.tell(batch); err != nil {
			return err
		}
		batch, t.due = nil, true
	}
	t.read = to
	if len(batch) == 0 && (!t.due || to == t.told) {
		return nil
	}
	t.told, t.due = to, false
	return t.tell(append(batch, session.SessionTold{Stamp: to}))
}
