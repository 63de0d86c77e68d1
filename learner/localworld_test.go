package learner

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// firstLocal is the first id that node 1 claims in these tests.
const firstLocal session.ID = 1<<56 | 5<<16

// width is the width of a bucket of the local sessions' queue, and look how often the server looks at the queue.
const (
	width = 250 * time.Millisecond
	look  = interval / 4
)

// localWorld has a server that accepts local sessions, without ids for them yet.
func localWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, localConfig())
}

// stocked has a server that accepts local sessions, with ids from firstLocal on.
func stocked(t *testing.T) *world {
	t.Helper()
	w := localWorld(t)
	w.follow()
	w.claims(firstLocal)
	return w
}

// claims answers the server's next claim.
func (w *world) claims(first session.ID) {
	w.t.Helper()
	r := w.leader.request()
	if r.Claim == nil || r.Claim.Count != session.MaxClaim {
		w.t.Fatalf("asked for %+v, want a claim of %d ids", r, session.MaxClaim)
	}
	w.leader.reply(session.Reply{Seq: r.Seq, First: first})
	synctest.Wait()
}

// openLocal opens a local session.
func (w *world) openLocal(conn session.Connection, request byte) session.Grant {
	w.t.Helper()
	g, err := conn.Open(w.t.Context(),
		session.OpenRequest{
			Local: true, Spec: session.Spec{Timeout: timeout}, RequestID: session.RequestID{request},
			MS: 7,
		})
	if err != nil {
		w.t.Fatalf("opening a local session: %v", err)
	}
	return g
}

// upgrade asks for an upgrade in a goroutine of its own.
func (w *world) upgrade(c session.Connection, t session.Token) <-chan granted {
	return later(func() (session.Grant, error) { return c.Upgrade(w.t.Context(), t) })
}

// global applies an upgrade at the next index.
func (w *world) global(r *session.UpgradeRequest, attachment uint64) session.Session {
	w.t.Helper()
	s := session.Session{
		ID: r.ID, Spec: session.Spec{Timeout: r.Timeout, Labels: r.Labels}, Owner: 1,
		Attachment: attachment,
	}
	index := w.view.AppliedIndex() + 1
	w.view.hold(s)
	w.server.Applied(index, 1, []session.Change{{Stamp: tree.StampAt(index, 1), Kind: session.Opened, Session: s}})
	w.view.put(s)
	w.view.apply(index)
	return s
}

// asked returns the next request, which must ask for an upgrade.
func (w *world) asked() (uint64, *session.UpgradeRequest) {
	w.t.Helper()
	r := w.leader.request()
	if r.Upgrade == nil {
		w.t.Fatalf("asked for %+v, want an upgrade", r)
	}
	return r.Seq, r.Upgrade
}

// upgraded opens a local session through the connection and makes it global.
func (w *world) upgraded(request byte, attachment uint64) (was, now session.Grant) {
	w.t.Helper()
	was = w.openLocal(w.conn, request)
	done := w.upgrade(w.conn, was.Token)
	seq, r := w.asked()
	s := w.global(r, attachment)
	w.leader.reply(session.Reply{Seq: seq, Session: s, Index: w.view.AppliedIndex()})
	got := <-done
	if got.err != nil {
		w.t.Fatalf("upgrade: %v", got.err)
	}
	return was, got.Grant
}

// lifting has a server that does not run, with a local session whose upgrade has begun. It needs no bubble.
func lifting(t *testing.T) (*world, session.Grant) {
	t.Helper()
	cfg := localConfig()
	cfg.Interval = time.Hour
	w := &world{t: t, view: newFakeView(), events: &events{}}
	w.server = NewServer(cfg, w.view)
	w.server.local.AddIDs(firstLocal, 1)
	w.conn = w.connect(w.events).(*connection)
	g := w.openLocal(w.conn, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.conn.Upgrade(ctx, g.Token) // nobody asks the leader: the upgrade stays in flight
	}()
	t.Cleanup(func() { cancel(); <-done })
	for w.server.local.Decides(g.Session.ID) {
		runtime.Gosched()
	}
	return w, g
}
