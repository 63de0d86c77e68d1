package learner

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// takenBy applies that instance 2 has taken session 1 over from a former instance to this node, and resumes it through
// c.
func (w *world) takenBy(ctx context.Context, c session.Connection) {
	w.t.Helper()
	w.view.put(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 2, Attachment: 6, Instance: 3})
	w.comesHere(ctx, c, 3)
}

// comesHere resumes session 1 through c for instance 2, after a former instance.
func (w *world) comesHere(ctx context.Context, c session.Connection, former uint64) {
	w.t.Helper()
	done := later(func() (session.Grant, error) {
		return c.Resume(ctx, session.ResumeRequest{Token: w.token(1, 6), Instance: 2, Attempt: 1})
	})
	r := w.leader.request()
	now := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 7, Instance: 2}
	w.view.put(now)
	w.server.Applied(0, 1, []session.Change{{Kind: session.Moved, Session: now, Former: former}})
	w.leader.reply(session.Reply{Seq: r.Seq, Term: 1, Session: now})
	if got := <-done; got.err != nil {
		w.t.Fatal(got.err)
	}
}

// left fails unless the next request reports to the leader that session 1 has no connection.
func (w *world) left() {
	w.t.Helper()
	w.settle()
	if r := w.leader.request(); !slices.Equal(r.Release, []session.Release{{ID: 1, Attachment: 7}}) {
		w.t.Errorf("the leader was asked %+v, want that the connection has ended", r)
	}
}

// M7: the leader learns of it when a connection ends soon after its client has taken a session over, and not later.
func TestM7ConnectionsThatEnd(t *testing.T) {
	for name, after := range map[string]time.Duration{"soon": timeout/2 - time.Millisecond, "later": timeout / 2} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.follow()
				c := w.connect(&events{})
				w.takenBy(t.Context(), c)
				time.Sleep(after)
				c.Disconnect()
				if after < timeout/2 {
					w.left()
				}
				c.Disconnect()
				w.unasked("a second end, or a late one")
			})
		})
	}
}

// M7: so it is when the client took the session over at another node, and came here afterwards.
func TestM7AHolderThatHasMoved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		taken := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 2, Attachment: 6, Instance: 2}
		w.view.put(taken)
		w.server.Applied(0, 1, []session.Change{{Kind: session.Moved, Session: taken, Former: 3}})
		c := w.connect(&events{})
		w.comesHere(t.Context(), c, 2)
		c.Disconnect()
		w.left()
	})
}

// M7: a call is no connection, so its client keeps nobody away.
func TestM7ACallHoldsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.takenBy(t.Context(), w.connect(nil))
		w.left()
	})
}

// M7: a client that goes away before its resume is answered keeps nobody away either.
func TestM7AClientThatGoesBeforeTheReply(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.view.put(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 2, Attachment: 6, Instance: 3})
		ctx, cancel := context.WithCancel(t.Context())
		done := later(func() (session.Grant, error) {
			return w.conn.Resume(ctx, session.ResumeRequest{Token: w.token(1, 6), Instance: 2, Attempt: 1})
		})
		r := l.request()
		cancel()
		if got := <-done; got.err == nil {
			t.Fatal("a resume without a reply was granted")
		}
		l.reply(session.Reply{Seq: r.Seq, Term: 1, Session: session.Session{
			ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 7, Instance: 2,
		}})
		w.left()
	})
}

// M7: so it is with requests that no goroutine waits for, and with many sessions at once.
func TestM7AClientThatGoesBeforeTheReplyToMany(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		c := w.connect(&events{}).(*connection)
		many := w.startResumes(c, w.resumesOf(map[session.ID]uint64{2: 6, 3: 6, 4: 6}, 2, 3, 4))
		asked := l.request()
		one := w.starting(c, session.Request{
			Resume: &session.ResumeRequest{Token: w.token(1, 6), Instance: 2, Attempt: 1},
		})
		alone := l.request()
		c.Disconnect()
		l.reply(session.Reply{Seq: asked.Seq, Term: 1, Moved: []session.MoveResult{
			{Attachment: 7}, {Err: session.ErrMoved}, {Attachment: 9},
		}})
		if got := <-many; len(got) != 3 {
			t.Errorf("told %+v", got)
		}
		if r := l.request(); !slices.Equal(r.Release, []session.Release{{ID: 2, Attachment: 7}, {ID: 4, Attachment: 9}}) {
			t.Errorf("the leader was asked %+v, want that the connection of two sessions has ended", r)
		}
		l.reply(session.Reply{Seq: alone.Seq, Term: 1, Session: session.Session{
			ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 7, Instance: 2,
		}})
		<-one
		w.left()
	})
}

// M7: an open takes no session over from another client, so nothing is released when its client goes away.
func TestM7AnOpenReleasesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		c := w.connect(&events{}).(*connection)
		one := w.starting(c, session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: timeout}}})
		asked := l.request()
		c.Disconnect()
		l.reply(session.Reply{Seq: asked.Seq, Term: 1, Session: session.Session{
			ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 7, Instance: 2,
		}})
		<-one
		w.unasked("the end of the client of an open")
	})
}
