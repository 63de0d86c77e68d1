package learner

import (
	"errors"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
)

// The token from before an upgrade speaks for the same attachment as the one it gave, at this node, until the session
// moves.
func TestL5TokensAcrossAnUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was, now := w.upgraded(1, 1) // the numbers are the same, by chance
		if was.Token == now.Token {
			t.Error("a local token is equal to a global one")
		}
		if _, err := w.conn.TouchToken(t.Context(), was.Token); err != nil {
			t.Errorf("touch by the former token: %v", err)
		}
		if again, err := w.conn.Upgrade(t.Context(), was.Token); err != nil || again.Token != now.Token {
			t.Errorf("upgrade by the former token: %+v, %v; want %+v", again.Token, err, now.Token)
		}
		closed := make(chan error, 1)
		go func() { closed <- w.conn.Close(t.Context(), was.Token) }()
		r := w.leader.request()
		if r.Close == nil || *r.Close != now.Token {
			t.Errorf("asked for %+v, want a close of %+v (M2)", r, now.Token)
		}
		w.leader.reply(session.Reply{Seq: r.Seq, Err: session.ErrNotLeader})
		<-closed

		w.move(was.Session.ID, 50)
		if len(w.events.moved) != 1 {
			t.Errorf("told %v, want that it moved (M4)", w.events.moved)
		}
		for _, tok := range []session.Token{was.Token, now.Token} {
			if _, err := w.conn.TouchToken(t.Context(), tok); !errors.Is(err, session.ErrMoved) {
				t.Errorf("touch by %+v after a move: %v, want %v (I4)", tok, err, session.ErrMoved)
			}
			if _, err := w.conn.Upgrade(t.Context(), tok); !errors.Is(err, session.ErrMoved) {
				t.Errorf("upgrade by %+v after a move: %v, want %v", tok, err, session.ErrMoved)
			}
		}
		if got := w.conn.Touch([]session.ID{was.Session.ID}).Failures; len(got) != 1 ||
			!errors.Is(got[0].Err, session.ErrMoved) {
			t.Errorf("touch on its connection after a move: %v", got)
		}
	})
}

// A local token whose attachment is not that of which the session became global speaks for nothing.
func TestL5AFormerLocalAttachment(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		old := w.openLocal(w.conn, 1).Token
		fresh, err := w.conn.Resume(t.Context(), session.ResumeRequest{Token: old, Instance: 1, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.conn.Upgrade(t.Context(), old); !errors.Is(err, session.ErrMoved) {
			t.Errorf("upgrade by a former token: %v, want %v", err, session.ErrMoved)
		}
		done := w.upgrade(w.conn, fresh.Token)
		seq, r := w.asked()
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 1})
		<-done
		if _, err := w.conn.TouchToken(t.Context(), old); !errors.Is(err, session.ErrMoved) {
			t.Errorf("touch by a former token: %v, want %v", err, session.ErrMoved)
		}
	})
}
