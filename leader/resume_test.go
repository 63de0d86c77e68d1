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

// M1: a node of a former release stops at a move that names an attachment. So no move names one before every member
// reads such entries: each has said so, or the log already has an entry that only such a member reads.
func TestM1NothingIsNamedThatAMemberDoesNotRead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reads   uint32 // the newest form that node 3 reads
		written uint32
		want    uint64
	}{
		{"a member of a former release", 0, 0, 0}, {"a member away", never, 0, 0}, {
			"all read it", 1, 0, 99,
		}, {"it is in the log", never, 1, 99},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trio(t, func(w *world) {
				w.written.Store(tt.written)
				if tt.reads != never {
					w.stream(session.Hello{Node: 3, Incarnation: 1, Stream: 1, LogVersion: tt.reads}, prompt)
				}
				m := w.join(2, prompt)
				defer w.run()()
				w.at(0)
				tok := token(w.has(5, 2))
				tok.Attachment = 99
				if r := m.ask(
					session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 77, Attempt: 1}},
				); r.Err != nil {
					t.Error(r.Err)
				}
				if moves, _ := proposed[session.MoveSession](w.log); len(moves) != 1 || moves[0].Named != tt.want {
					t.Errorf("proposed %+v, want %d named", moves, tt.want)
				}
			})
		})
	}
}

// never is the version of a member that has opened no stream.
const never = 1 << 31

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
