package learner

import (
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestM3ServesOnlyWhatItHasApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
		w.view.put(s)
		begin := time.Now()
		done := w.resuming(w.conn, w.token(1, 1))
		l.reply(session.Reply{Seq: l.request().Seq, Index: 7, Session: s})
		time.Sleep(300 * time.Millisecond)
		if w.server.table.Len() != 0 {
			t.Error("serves a session before this node has applied its move")
		}
		w.view.apply(7)
		if got := <-done; got.err != nil || time.Since(begin) < 300*time.Millisecond {
			t.Errorf("resumed after %v with %v, want success once the move is applied", time.Since(begin), got.err)
		}
	})
}

func TestM3ARestartedOwnerWaitsForTheLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.view.put(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 4})
		touch := func() error {
			_, err := w.conn.TouchToken(t.Context(), w.token(1, 4))
			return err
		}
		if err := touch(); !errors.Is(err, session.ErrLagging) {
			t.Errorf("touch without a leader: %v, want ErrLagging", err)
		}
		l := w.follow()
		l.beat(session.Heartbeat{Attachment: 3})
		if err := touch(); !errors.Is(err, session.ErrLagging) {
			t.Errorf("touch under a leader that has not applied the attachment: %v, want ErrLagging", err)
		}
		l.beat(session.Heartbeat{Attachment: 4})
		if err := touch(); err != nil {
			t.Errorf("touch under a leader that has applied it: %v", err)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 1 {
			t.Errorf("the touch was not reported: %v", got)
		}
	})
}

func TestM3ANewLeaderHasToApplyItToo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.view.put(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 4})
		w.follow().beat(session.Heartbeat{Attachment: 4})
		w.follow().beat(session.Heartbeat{Attachment: 3})
		if _, err := w.conn.TouchToken(t.Context(), w.token(1, 4)); !errors.Is(err, session.ErrLagging) {
			t.Errorf("touch under a new leader that has not applied the attachment: %v, want ErrLagging", err)
		}
	})
}

func TestM5AnUnknownIDIsNotCalledExpired(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		if got := w.conn.Touch([]session.ID{77}).Failures; len(got) != 1 || !errors.Is(got[0].Err, session.ErrMoved) {
			t.Errorf("touch of an id the node has not seen: %v, want ErrMoved", got)
		}
		w.view.drop(session.Certificate{ID: 77})
		if got := w.conn.Touch([]session.ID{77}).Failures; len(got) != 1 || !errors.Is(got[0].Err, session.ErrExpired) {
			t.Errorf("touch of an id that has ended: %v, want ErrExpired", got)
		}
	})
}

func TestM4ConnectionsHearOfMovesAndEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		for id := session.ID(1); id <= 4; id++ {
			w.open(id, uint64(id))
		}
		w.move(1, 10)
		ended := session.Certificate{ID: 2, Cause: session.CauseExpired}
		w.view.drop(ended)
		w.server.Applied(
			0, 1, []session.Change{{Kind: session.Ended, Session: session.Session{ID: 2}, Certificate: &ended}},
		)
		// A snapshot brings a state in which 3 has moved and 4 has ended.
		w.view.put(session.Session{ID: 3, Owner: 2, Attachment: 11, Instance: 8})
		w.view.drop(session.Certificate{ID: 4, Cause: session.CauseClosed})
		w.server.Restored()
		if got := w.events.moved; len(got) != 2 || got[0] != 1 || got[1] != 3 ||
			!slices.Equal(w.events.to, []uint64{10, 11}) {
			t.Errorf("told that %v moved to %v, want 1 and 3 to 10 and 11", got, w.events.to)
		}
		if got := w.events.by; len(got) != 2 || got[1] != 8 {
			t.Errorf("told that instances %v resumed them, want 8 for the second", got)
		}
		if got := w.events.gone; len(got) != 2 || !got[0].Equal(ended) || got[1].Cause != session.CauseClosed {
			t.Errorf("told that %v are gone, want 2 (expired) and 4 (closed)", got)
		}
		if got := w.server.table.Len(); got != 0 {
			t.Errorf("still serves %d sessions", got)
		}
	})
}

func TestM4AGrantOvertakenByALaterMoveIsNotServed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		done := w.resuming(w.conn, w.token(1, 1))
		seq := l.request().Seq
		w.view.put(session.Session{ID: 1, Owner: 2, Attachment: 6, Instance: 4}) // newer than the grant
		l.reply(session.Reply{Seq: seq, Session: session.Session{
			ID: 1, Spec: session.Spec{Timeout: timeout},
			Owner: 1, Attachment: 5,
		}})
		got := <-done
		if told, ok := errors.AsType[*session.MovedError](got.err); !ok ||
			*told != (session.MovedError{Attachment: 6, Instance: 4}) {
			t.Errorf("resume: %v, want ErrMoved with the instance that has the session", got.err)
		}
		if w.server.table.Len() != 0 {
			t.Error("serves a session that has moved on")
		}
	})
}

func TestM5WaitsABoundedTimeForTheTokensAttachment(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		begin := time.Now()
		if _, err := w.conn.TouchToken(t.Context(), w.token(8, 3)); !errors.Is(err, session.ErrLagging) ||
			time.Since(begin) != time.Second {
			t.Errorf("touch of an attachment that the node has not applied: %v after %v, want ErrLagging after 1s", err,
				time.Since(begin))
		}
		l.beat(session.Heartbeat{Attachment: 3})
		done := make(chan error)
		go func() {
			_, err := w.conn.TouchToken(t.Context(), w.token(8, 3))
			done <- err
		}()
		time.Sleep(time.Second / 2)
		w.view.put(session.Session{ID: 8, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 3})
		w.server.Applied(0, 1, nil)
		if err := <-done; err != nil {
			t.Errorf("touch once the node has caught up: %v", err)
		}
	})
}

func TestM5AnEndIsExplainedOnceThisNodeHasAppliedIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		done := w.resuming(w.conn, w.token(1, 1))
		l.reply(session.Reply{Seq: l.request().Seq, Index: 4, Err: &session.ExpiredError{ID: 1}})
		time.Sleep(time.Second / 2)
		w.view.drop(session.Certificate{ID: 1, Cause: session.CauseExpired})
		w.view.apply(4)
		gone := (*session.ExpiredError)(nil)
		if got := <-done; !errors.As(got.err, &gone) || gone.Certificate == nil ||
			gone.Certificate.Cause != session.CauseExpired {
			t.Errorf("resume: %v, want the end with its certificate", got.err)
		}
	})
}

func TestO2ARepeatThroughAnotherNodeIsNotServedHere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		done := w.opening()
		l.reply(
			session.Reply{
				Seq: l.request().Seq, Session: session.Session{ID: 1, Owner: 2, Attachment: 1},
				Repeated: true,
			},
		)
		if g := <-done; g.Session.Owner != 2 || g.SafeFor >= 0 || w.server.table.Len() != 0 {
			t.Errorf("grant %+v with %d served, want node 2's session and nothing served", g.Grant,
				w.server.table.Len())
		}
	})
}
