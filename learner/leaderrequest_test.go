package learner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// starting starts a request through c. The channel gets its outcome, and panics at a second one.
func (w *world) starting(c session.Connection, r session.Request) <-chan granted {
	w.t.Helper()
	told := make(chan granted, 1)
	if !c.Start(r, func(g session.Grant, err error) {
		select {
		case told <- granted{g, err}:
		default:
			panic("a request is told a second outcome")
		}
	}) {
		w.t.Fatalf("%+v was not started", r)
	}
	return told
}

// untold fails if the outcome of a request is known.
func (w *world) untold(what string, told <-chan granted) {
	w.t.Helper()
	synctest.Wait()
	select {
	case g := <-told:
		w.t.Fatalf("%s: told %+v", what, g)
	default:
	}
}

// A request that no goroutine waits for is answered once this node has applied its entry, and not before.
func TestM3StartServesOnlyWhatItHasApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		begun := time.Now()
		opened := w.starting(w.conn, session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: timeout}}})
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
		l.reply(session.Reply{Seq: l.request().Seq, Term: 1, Index: 5, Session: s})
		time.Sleep(100 * time.Millisecond)
		w.untold("an open that this node has not applied", opened)
		if w.server.table.find(1) != nil {
			t.Error("the session is served before this node has applied its open")
		}
		w.view.put(s)
		w.view.apply(5)
		if g := <-opened; g.err != nil || g.Session.ID != 1 || g.SafeFor != promised(0) {
			t.Errorf("open: %+v, want a grant with the whole promise", g)
		}
		w.promises("of the opened session", promised(time.Since(begun)), 1)

		closed := w.starting(w.conn, session.Request{Close: new(w.token(1, 1))})
		l.reply(session.Reply{Seq: l.request().Seq, Term: 1, Index: 6})
		w.untold("a close that this node has not applied", closed)
		w.view.apply(6)
		if g := <-closed; g.err != nil {
			t.Errorf("close: %v", g.err)
		}
	})
}

// The leader's answer about a session that has moved or ended is passed on once this node has applied the move or the
// end too (N4 seen index).
func TestN4StartReportsAnEndOnceItIsApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		resumed := w.starting(w.conn, session.Request{
			Resume: &session.ResumeRequest{Token: w.token(1, 1), Instance: 1, Attempt: 1},
		})
		l.reply(session.Reply{Seq: l.request().Seq, Index: 5, Err: &session.ExpiredError{ID: 1}})
		w.untold("an end that this node has not applied", resumed)
		w.view.drop(session.Certificate{ID: 1, Cause: session.CauseClosed})
		w.view.apply(5)
		g := <-resumed
		if gone, ok := errors.AsType[*session.ExpiredError](g.err); !ok || gone.Certificate == nil {
			t.Errorf("resume of an ended session: %v, want its certificate", g.err)
		}
	})
}

// A resume that names a newer index than this node has applied reaches the leader once the node has applied that index.
// At the end of the wait it is LAGGING, and the leader was never asked.
func TestN4SeenIsWaitedForWithoutAGoroutine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.view.apply(7)
		ask := func() <-chan granted {
			return w.starting(w.conn, session.Request{
				Resume: &session.ResumeRequest{Token: w.token(1, 1), Instance: 1, Attempt: 1, Seen: 8},
			})
		}
		begun, late := time.Now(), ask()
		w.unasked("a resume of a client that has seen 8")
		if t.Failed() {
			t.FailNow() // nobody answers it
		}
		if g := <-late; !errors.Is(g.err, session.ErrLagging) || time.Since(begun) != w.server.wait.bound {
			t.Errorf("after %v: %v, want %v after %v", time.Since(begun), g.err, session.ErrLagging, w.server.wait.bound)
		}
		w.unasked("a resume that lagged")
		resumed := ask()
		w.view.apply(8)
		r := l.request()
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 2}
		w.view.put(s)
		l.reply(session.Reply{Seq: r.Seq, Term: 1, Index: 8, Session: s})
		if g := <-resumed; g.err != nil || g.Token.Attachment != 2 {
			t.Errorf("resume: %+v", g)
		}
	})
}

// A request that has to wait for something outside of the log is not started.
func TestStartLeavesLocalSessionsAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorldOf(t, localConfig())
		w.follow()
		w.claims(firstLocal)
		g := w.openLocal(w.conn, 1)
		never := func(session.Grant, error) { t.Error("a request that was not started is told an outcome") }
		for name, r := range map[string]session.Request{
			"local open": {Open: &session.OpenRequest{
				Spec:  session.Spec{Timeout: timeout},
				Local: true,
			}},
			"resume of a local session": {Resume: &session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1}},
			"close of a local session":  {Close: &g.Token},
			"upgrade":                   {},
		} {
			if w.conn.Start(r, never) {
				t.Errorf("%s was started", name)
			}
		}
		synctest.Wait()
	})
}

// A request without a leader, at a stopping or a read-only node, is refused at once.
func TestStartIsRefusedAsOpenIs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		open := session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: timeout}}}
		if g := <-w.starting(w.conn, open); !errors.Is(g.err, session.ErrNoLeader) {
			t.Errorf("without a leader: %v", g.err)
		}
		l := w.follow()
		cut := w.starting(w.conn, open)
		l.request()
		l.end()
		if g := <-cut; !errors.Is(g.err, session.ErrOutcomeUnknown) {
			t.Errorf("the link ended: %v", g.err)
		}
		w.server.Stop()
		if g := <-w.starting(w.conn, open); !errors.Is(g.err, session.ErrStopping) {
			t.Errorf("at a node that stops: %v", g.err)
		}
	})
}

// The outcome of a request whose connection has ended changes nothing: the client repeats the request elsewhere, and
// its session is served there.
func TestALateOutcomeServesNothingOnAnEndedConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		opened := w.starting(w.conn, session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: timeout}}})
		r := l.request()
		w.conn.Disconnect()
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
		w.view.put(s)
		l.reply(session.Reply{Seq: r.Seq, Term: 1, Session: s})
		if g := <-opened; !errors.Is(g.err, session.ErrOutcomeUnknown) {
			t.Errorf("told %+v, want %v", g, session.ErrOutcomeUnknown)
		}
		if w.server.table.find(1) != nil {
			t.Error("an ended connection serves a session")
		}
	})
}

// A panic of one request is its own outcome. The goroutine that recovered it continues with the others.
func TestAPanicIsTheOutcomeOfItsRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		open := session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: timeout}}}
		first, second := w.starting(w.conn, open), w.starting(w.conn, open)
		for id := range session.ID(2) {
			s := session.Session{ID: id + 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: uint64(id + 1)}
			w.view.put(s)
			l.reply(session.Reply{Seq: l.request().Seq, Term: 1, Index: 5, Session: s})
		}
		synctest.Wait()
		w.view.onSession = func() { panic("planted") }
		w.view.apply(5)
		if p, ok := errors.AsType[*session.PanicError]((<-first).err); !ok || p.Value != "planted" {
			t.Errorf("the first request is told %v, want the panic", p)
		}
		if w.server.table.find(1) != nil {
			t.Error("the session of the request that panicked is served")
		}
		if g := <-second; g.err != nil {
			t.Errorf("the second request: %v", g.err)
		}
	})
}

// noted is a waiter that notes its outcomes.
type noted struct {
	name string
	log  *notes
}

type notes struct {
	mu  sync.Mutex
	all []string
}

func (n noted) applied(behind error) {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	what := n.name
	if behind != nil {
		what = fmt.Sprintf("%s: %v", n.name, behind)
	}
	n.log.all = append(n.log.all, what)
}

func (n *notes) take() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	return all
}

// queued has a queue that runs until the test ends, at index 1.
func queued(t *testing.T) (*applyQueue, *fakeView, *notes, context.CancelFunc) {
	t.Helper()
	view := newFakeView()
	view.apply(1)
	q := newApplyQueue(view, time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { q.run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return q, view, new(notes), cancel
}

// Waiters are notified in the order of their indexes, and those of one index in the order of arrival. A lower index
// that comes later does not wait for a higher one.
func TestTheApplyQueueIsInTheOrderOfTheLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q, view, log, _ := queued(t)
		q.after(1, noted{"applied", log})
		for _, w := range []struct {
			index uint64
			name  string
		}{{7, "7a"}, {5, "5a"}, {7, "7b"}, {6, "6"}, {5, "5b"}, {9, "9"}} {
			q.after(w.index, noted{w.name, log})
		}
		if got := log.take(); !slices.Equal(got, []string{"applied"}) {
			t.Errorf("at index 1 told %v", got)
		}
		view.apply(5)
		time.Sleep(2 * time.Millisecond)
		if got := log.take(); !slices.Equal(got, []string{"5a", "5b"}) {
			t.Errorf("at index 5 told %v", got)
		}
		q.after(4, noted{"4", log}) // applied already: at once
		view.apply(7)
		time.Sleep(2 * time.Millisecond)
		if got := log.take(); !slices.Equal(got, []string{"4", "6", "7a", "7b"}) {
			t.Errorf("at index 7 told %v", got)
		}
		q.after(8, noted{"8", log}) // while 9 is waited for
		view.apply(8)
		time.Sleep(2 * time.Millisecond)
		if got := log.take(); !slices.Equal(got, []string{"8"}) {
			t.Errorf("at index 8 told %v", got)
		}
	})
}

// Each wait ends after its own time, to the nanosecond, whatever waits beside it.
func TestTheApplyQueueIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q, view, log, cancel := queued(t)
		begun := time.Now()
		at := func(d time.Duration) { time.Sleep(d - time.Since(begun)) }
		q.after(9, noted{"first", log})
		at(300 * time.Millisecond)
		q.after(9, noted{"second", log})
		q.after(5, noted{"lower", log})
		at(999 * time.Millisecond)
		if got := log.take(); len(got) > 0 {
			t.Errorf("before the end of a wait: %v", got)
		}
		at(time.Second)
		if got := log.take(); !slices.Equal(got, []string{"first: " + session.ErrLagging.Error()}) {
			t.Errorf("after a second: %v", got)
		}
		view.apply(5)
		at(1100 * time.Millisecond)
		if got := log.take(); !slices.Equal(got, []string{"lower"}) {
			t.Errorf("at index 5: %v", got)
		}
		at(1300 * time.Millisecond)
		if got := log.take(); !slices.Equal(got, []string{"second: " + session.ErrLagging.Error()}) {
			t.Errorf("after 1.3 s: %v", got)
		}
		q.after(9, noted{"left", log})
		synctest.Wait()
		cancel()
		if got := log.take(); !slices.Equal(got, []string{"left: " + session.ErrLagging.Error()}) {
			t.Errorf("at the end: %v", got)
		}
		q.after(9, noted{"after the end", log})
		if got := log.take(); !slices.Equal(got, []string{"after the end: " + session.ErrLagging.Error()}) {
			t.Errorf("after the end: %v", got)
		}
	})
}

// What waits for an index that a client has named ends with its connection: a client cannot have the node keep it for
// longer. It is not asked of the leader, nor is what comes after the end.
func TestAnEndedConnectionAsksAndKeepsNothing(t *testing.T) {
	const seen = 8
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		one := session.Request{
			Resume: &session.ResumeRequest{Token: w.token(1, 1), Instance: 1, Attempt: 1, Seen: seen},
		}
		many := w.resumesOf(map[session.ID]uint64{2: 1, 3: 1}, 2, 3)
		many.Seen = seen
		ended := func(when string) {
			t.Helper()
			waits, wait := w.starting(w.conn, one), w.startResumes(w.conn, many)
			if when == "before" {
				w.untold("a resume of a client that has seen more", waits)
				w.untoldResumes("resumes of a client that has seen more", wait)
				w.conn.Disconnect()
			}
			synctest.Wait()
			select {
			case g := <-waits:
				if !errors.Is(g.err, session.ErrClosed) {
					t.Errorf("%s the end: told %+v, want %v", when, g, session.ErrClosed)
				}
				wantOutcomes(t, <-wait, session.ErrClosed, session.ErrClosed)
			default:
				t.Fatalf("a request from %s the end of its connection is still kept", when)
			}
		}
		ended("before")
		ended("after")
		if n := len(w.conn.parked); n > 0 {
			t.Errorf("the ended connection keeps %d requests", n)
		}
		for _, g := range w.server.wait.queue.groups.Values() {
			for _, left := range g.waiters {
				if p, ok := left.(*parked); !ok || p.request != nil {
					t.Errorf("the queue keeps %+v", left)
				}
			}
		}
		w.view.apply(seen)
		w.unasked("a resume of a connection that has ended")
	})
}
