package sim

import (
	"context"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// mirror keeps one mirror of the watched part of the tree after the other until the last fault is over, and reads them.
func (x *watcher) mirror(ctx context.Context) {
	for ctx.Err() == nil && !x.isLast() {
		filling, cancel := context.WithTimeout(ctx, recovery)
		m, err := x.client.Tree().Mirror(filling, plotPath)
		cancel()
		if err != nil {
			x.wait(ctx, 500*time.Millisecond) // no node, or none that has applied the founding
			continue
		}
		name := x.newName()
		for range 8 + x.draw(20) {
			if ctx.Err() != nil || x.isLast() {
				break
			}
			x.readMirror(ctx, m, name, givesUp)
			x.wait(ctx, x.between(100*time.Millisecond, 2*time.Second))
		}
		if x.isLast() && !x.readMirror(ctx, m, name, recovery) {
			x.w.failf("%s: a mirror does not show what its client has seen, %v after the last fault: %v", x.name, recovery,
				m.Err())
		}
		m.Close()
	}
}

// readMirror waits until a mirror shows everything that its client has seen, and records its contents. Half of the
// times it does not wait.
func (x *watcher) readMirror(ctx context.Context, m *client.Mirror, name string, timeout time.Duration) bool {
	var waited tree.Stamp
	if x.isLast() || x.draw(2) == 0 {
		waiting, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		waited = x.client.SeenStamp()
		if m.Wait(waiting, waited) != nil {
			return false
		}
	}
	for _, path := range beds() {
		shown := history.Entry{Path: path, Stamp: m.Stamp()}
		found, exists := m.Get(path)
		shown.Exists, shown.Stat = exists, found.Stat
		x.w.record.Add(history.Event{
			Kind: history.Mirrored, Who: x.name, Entry: &shown, Watched: &history.Watched{Name: name, Stamp: waited},
		})
	}
	return true
}

// hearSessions watches sessions, with one watch after the other, until the last fault is over. Everything that nodes
// had applied by then is delivered within quiet.
func (x *watcher) hearSessions(ctx context.Context) {
	const quiet = 5 * time.Second
	for ctx.Err() == nil && !x.isLast() {
		watching, end := context.WithCancel(ctx)
		name, ended := x.newName(), make(chan bool)
		go func() {
			defer close(ended)
			began := x.hearSessionsOnce(watching, name)
			ended <- began
		}()
		x.wait(ctx, x.between(5*time.Second, 25*time.Second))
		all := tree.StampAt(x.w.plot.applied(), tree.MaxPosition)
		if x.isLast() {
			sleep(ctx, quiet)
		}
		last := x.isLast() && ctx.Err() == nil
		end()
		if began := <-ended; last && began {
			x.everything(name, all)
		} else if last {
			x.w.failf("%s: sessions cannot be watched, %v after the last fault", x.name, quiet)
		}
	}
}

// hearSessionsOnce records the events of a watch of sessions until ctx ends. It reports whether the watch was in place.
func (x *watcher) hearSessionsOnce(ctx context.Context, name string) (began bool) {
	for e, err := range x.client.WatchSessions(ctx) {
		watched := &history.Watched{Name: name, Stamp: e.Stamp}
		event := history.Event{Kind: history.WatchReceived, Who: x.name, Watched: watched}
		switch {
		case err != nil:
			if ctx.Err() == nil {
				x.w.failf("%s: the watch %s of sessions ended: %v", x.name, name, err)
			}
			return began
		case e.Lost:
			event.Kind, watched.Newest = history.WatchLost, x.w.plot.applied()
		case e.Opened != nil:
			watched.Session, event.ID, event.Attachment = session.Opened, e.Opened.ID, e.Opened.Attachment
		case e.Moved != nil:
			watched.Session, event.ID, event.Attachment = session.Moved, e.Moved.ID, e.Moved.Attachment
		case e.Ended != nil:
			watched.Session, event.ID = session.Ended, e.Ended.ID
		default:
			event.Kind, began = history.WatchBegan, true
		}
		watched.Event.Stamp = e.Stamp
		x.w.record.Add(event)
	}
	return began
}
