package leader_test

import (
	"context"
	"errors"
	"testing"

	"holdfast/session"
)

// M1: every resume is proposed, also to the same node, with the client's instance and attempt and the attachment that
// its token names. The log decides, and the reply is its result.
func TestM1Resume(t *testing.T) {
	solo(t, func(w *world, m *member) {
		s := w.has(5, 2)
		tok := token(s)
		tok.Attachment = 99
		r := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 77, Attempt: 3}})
		if r.Err != nil || r.Session.Owner != 2 || r.Session.Attachment <= s.Attachment || r.Term != term ||
			r.Repeated {
			t.Errorf("reply %+v", r)
		}
		moves, _ := proposed[session.MoveSession](w.log)
		if want := (session.MoveSession{ID: 5, NewOwner: 2, Instance: 77, Attempt: 3, Named: 99}); len(moves) != 1 ||
			moves[0] != want {
			t.Errorf("proposed %+v, want %+v", moves, want)
		}
		w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
			return session.Result{Term: term, Session: r.Session, Repeated: true}, nil, true
		})
		again := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 77, Attempt: 3}})
		if again.Err != nil || !again.Repeated {
			t.Errorf("reply %+v to a repeat, want Repeated", again)
		}
		w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
			return session.Result{Term: term, Err: session.MovedTo(session.Session{Attachment: 8, Instance: 6})}, nil,
				true
		})
		r = m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 77, Attempt: 2}})
		if told, ok := errors.AsType[*session.MovedError](r.Err); !ok ||
			*told != (session.MovedError{Attachment: 8, Instance: 6}) {
			t.Errorf("reply %+v to an older attempt, want ErrMoved", r)
		} else if r.Index != w.view.CommitIndex() || r.Index == 0 {
			t.Errorf("with index %d, want that of the newest commit, %d (N4)", r.Index, w.view.CommitIndex())
		}
	})
}

// M6: a closing session is not moved.
func TestM6ClosingIsNotMoved(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		tok := token(w.has(5, 1))
		release := w.blocked()
		m := w.join(1, prompt)
		defer w.run()()
		w.at(ms)
		m.asks(session.Request{Seq: 1, Close: &tok})
		if r := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok}}); !errors.Is(r.Err,
			session.ErrClosing) {
			t.Errorf("%+v, want ErrClosing", r)
		}
		if moves, _ := proposed[session.MoveSession](w.log); moves != nil {
			t.Errorf("proposed %+v", moves)
		}
		release(nil)
		if r := m.replied(1); r == nil || r.Err != nil {
			t.Errorf("close: %+v", r)
		}
	})
}
