package namespace

import (
	"context"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// maxSessionBatch is how many changes of sessions are told together, at most.
const maxSessionBatch = 256

// WatchSessions tells of global sessions that are opened, moved and ended (V8), in the order of their stamps, until ctx
// ends or tell returns an error. The first batch is told at once.
func (s *Service) WatchSessions(
	ctx context.Context, w session.SessionWatch, tell func([]session.SessionTold) error,
) error {
	if err := s.mayWatchSessions(ctx, w); err != nil {
		return err
	}
	t := teller{service: s, tell: tell, read: w.Since, due: true}
	if t.read == 0 {
		t.read = watch.End(s.hub.Shown().Index)
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
			t.due = true
		}
	}
}

// mayWatchSessions waits until the node shows what the client has seen, and refuses as reads of the tree do.
func (s *Service) mayWatchSessions(ctx context.Context, w session.SessionWatch) error {
	if err := s.AwaitTree(ctx); err != nil {
		return err
	}
	if s.hub.Shown().Root == nil {
		return s.treeless(max(w.Since, w.Options.Seen))
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
}

// on tells what has happened since. If that is nothing, it tells the newest stamp when that is due.
func (t *teller) on() error {
	to := max(t.read, watch.End(t.service.hub.Shown().Index))
	changes, whole := t.service.hub.Sessions().Range(t.read, to)
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
