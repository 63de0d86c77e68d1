package learner

import (
	"context"
	"errors"
	"slices"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestL5AResumeFencesTheFormerAttachment(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		first := w.openLocal(w.conn, 1)
		e := &events{}
		other := w.connect(e)
		r := session.ResumeRequest{Token: first.Token, Instance: 9, Attempt: 2}
		second, err := other.Resume(t.Context(), r)
		if err != nil || second.Token.Attachment != 2 || !second.Token.Local || second.SafeFor != promised(0) {
			t.Fatalf("resumed as %+v, %v", second, err)
		}
		if !slices.Equal(w.events.local, []session.ID{first.Session.ID}) || !slices.Equal(w.events.to, []uint64{2}) {
			t.Errorf("the former connection was told %v, to %v", w.events.local, w.events.to)
		}
		if got := w.conn.Touch([]session.ID{first.Session.ID}).Failures; len(got) != 1 ||
			!errors.Is(got[0].Err, session.ErrMoved) {
			t.Errorf("touch through the former connection: %v, want %v", got, session.ErrMoved)
		}
		if _, err := w.conn.TouchToken(t.Context(), first.Token); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch by the former token: %v, want %v", err, session.ErrMoved)
		}
		if err := w.conn.Close(t.Context(), first.Token); !errors.Is(err, session.ErrMoved) {
			t.Errorf("close by the former token: %v, want %v", err, session.ErrMoved)
		}
		if again, err := other.Resume(t.Context(), r); err != nil || again.Token != second.Token {
			t.Errorf("the same attempt again: %+v, %v; want %+v", again.Token, err, second.Token)
		}
		r.Attempt = 1
		if _, err := w.conn.Resume(t.Context(), r); !errors.Is(err, session.ErrMoved) {
			t.Errorf("an attempt that comes late: %v, want %v (M1)", err, session.ErrMoved)
		}
		if !slices.Equal(w.events.by, []uint64{9}) {
			t.Errorf("told that %v resumed the session, want 9", w.events.by)
		}
		if err := other.Close(t.Context(), second.Token); err != nil || e.ends() != 1 {
			t.Errorf("close by the present token: %v, told %v", err, e.gone)
		}
	})
}

// L5, M1: a delayed resume of the process that lost a session does not move it back. A process that names the present
// attachment takes the session over.
func TestL5AnotherProcessNamesThePresentAttachment(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		opened := w.openLocal(w.conn, 1).Token
		resume := func(c session.Connection, named uint64, local bool, instance,
			attempt uint64,
		) (session.Grant, error) {
			tok := opened
			tok.Attachment, tok.Local = named, local
			return c.Resume(t.Context(), session.ResumeRequest{Token: tok, Instance: instance, Attempt: attempt})
		}
		e, other := &events{}, &events{}
		mine, theirs := w.connect(e), w.connect(other)
		if _, err := resume(mine, 1, true, 5, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := resume(theirs, 2, true, 6, 1); err != nil {
			t.Fatalf("naming the present attachment: %v", err)
		}
		for _, named := range []uint64{1, 2} {
			_, err := resume(mine, named, true, 5, 2)
			if told, ok := errors.AsType[*session.MovedError](err); !ok ||
				*told != (session.MovedError{Attachment: 3, Local: true, Instance: 6}) {
				t.Errorf("the delayed resume of the former process, which names %d: %v", named, err)
			}
		}
		if _, err := resume(mine, 3, false, 5, 3); !errors.Is(err, session.ErrMoved) {
			t.Errorf("naming an attachment of the log with that number: %v, want %v", err, session.ErrMoved)
		}
		if len(other.local)+len(other.moved) != 0 {
			t.Errorf("the holder was told %v", other.local)
		}
		if back, err := resume(mine, 3, true, 5, 4); err != nil || back.Token.Attachment != 4 ||
			!slices.Equal(other.by, []uint64{5}) {
			t.Errorf("taken back as %+v, %v; the other process was told of %v", back, err, other.by)
		}
	})
}

func TestL5NeedsTheCredential(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		bad := w.openLocal(w.conn, 1).Token
		bad.Credential[3] ^= 1
		_, touch := w.conn.TouchToken(t.Context(), bad)
		_, resume := w.conn.Resume(t.Context(), session.ResumeRequest{Token: bad, Instance: 1, Attempt: 1})
		for _, err := range []error{touch, resume, w.conn.Close(t.Context(), bad)} {
			if !errors.Is(err, session.ErrBadCredential) {
				t.Errorf("with a bad credential: %v", err)
			}
		}
		if w.server.Stats().Local != 1 {
			t.Error("a request with a bad credential ended the session")
		}
	})
}

// L6: a node that does not know a session names the only node that may know it, unless there is a certificate.
func TestL6ElsewhereItIsNotKnown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		const theirs = session.ID(7)<<56 | 1
		local := w.token(theirs, 1)
		local.Local = true
		resume := func(ctx context.Context, t session.Token) error {
			done := make(chan error, 1)
			go func() {
				_, err := w.conn.Resume(ctx, session.ResumeRequest{Token: t, Instance: 1, Attempt: 1})
				done <- err
			}()
			r := w.leader.request()
			if r.Resume == nil || r.Resume.Token != t {
				w.t.Errorf("asked %+v", r)
			}
			w.leader.reply(session.Reply{Seq: r.Seq, Err: &session.ExpiredError{ID: t.ID}})
			return <-done
		}
		gone, ok := errors.AsType[*session.ExpiredError](resume(t.Context(), local))
		if !ok || gone.LocalTo != 7 ||
			gone.Error() != "session 0x0700000000000001 is not known here: it is local to node 7, or has ended" {
			t.Errorf("resume: %v", gone)
		}
		if _, err := w.conn.TouchToken(t.Context(), local); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch: %v, want %v: another node may know the session", err, session.ErrMoved)
		}
		gone, ok = errors.AsType[*session.ExpiredError](resume(t.Context(), w.token(theirs, 1)))
		if !ok || gone.LocalTo != 0 {
			t.Errorf("resume with a global token: %v, want no node named: the log has known the session", gone)
		}
		w.view.drop(session.Certificate{ID: theirs, Cause: session.CauseExpired, Owner: 7})
		gone, ok = errors.AsType[*session.ExpiredError](resume(t.Context(), local))
		if !ok || gone.LocalTo != 0 || gone.Certificate == nil {
			t.Errorf("resume of an ended session: %v, want its certificate", gone)
		}
		if _, err := w.conn.TouchToken(t.Context(), local); !errors.Is(err, session.ErrExpired) {
			t.Errorf("touch of an ended session: %v, want %v", err, session.ErrExpired)
		}
	})
}

// M5: a leader that has committed an upgrade, but not applied it, does not find the session. This node has applied the
// upgrade, and does not report the session as ended.
func TestM5WhatHasBecomeGlobalHereHasNotEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		done := w.upgrade(w.conn, was.Token)
		seq, r := w.asked()
		s := w.global(r, 40)
		resumed := w.resuming(w.connect(nil), was.Token)
		asked := w.leader.request()
		w.leader.reply(
			session.Reply{Seq: asked.Seq, Index: w.view.AppliedIndex(), Err: &session.ExpiredError{ID: s.ID}},
		)
		if got := <-resumed; !errors.Is(got.err, session.ErrLagging) {
			t.Errorf("resume: %v, want %v", got.err, session.ErrLagging)
		}
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: w.view.AppliedIndex()})
		if got := <-done; got.err != nil {
			t.Errorf("upgrade: %v", got.err)
		}
	})
}

// M3: the repeat of an open whose session became global serves an attachment only if this node serves it already, or
// the leader has said that it applied it.
func TestM3ARepeatServesNoMoveThatTheLeaderMayNotKnow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		_, now := w.upgraded(1, 40)
		repeat := func() (session.Grant, error) {
			done := later(func() (session.Grant, error) {
				return w.conn.Open(t.Context(),
					session.OpenRequest{
						Local: true, Spec: session.Spec{Timeout: timeout},
						RequestID: session.RequestID{1}, MS: 7,
					})
			})
			asked := w.leader.request()
			w.leader.reply(session.Reply{Seq: asked.Seq, Index: w.view.AppliedIndex()})
			got := <-done
			return got.Grant, got.err
		}
		if got, err := repeat(); err != nil || got.Token != now.Token {
			t.Errorf("repeat for a session that is served here: %+v, %v; want %+v", got.Token, err, now.Token)
		}
		w.leader.beat(session.Heartbeat{Attachment: 40})
		w.move(firstLocal, 41)
		s, _ := w.view.Session(firstLocal)
		s.Owner, s.Attachment = 1, 42
		w.view.put(s)
		if _, err := repeat(); !errors.Is(err, session.ErrLagging) {
			t.Errorf("repeat after a move back that no leader has confirmed: %v, want %v", err, session.ErrLagging)
		}
		w.leader.beat(session.Heartbeat{Attachment: 42})
		if got, err := repeat(); err != nil || got.Token.Attachment != 42 {
			t.Errorf("repeat once the leader has confirmed the move: %+v, %v", got.Token, err)
		}
	})
}
