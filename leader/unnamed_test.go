package leader_test

import (
	"context"
	"errors"
	"testing"

	"holdfast/session"
)

// hold is the instance that has the sessions of these tests, other another one.
const hold, other = 77, 88

// held makes a session that an instance has resumed.
func (w *world) held(id session.ID, owner session.Node) session.Session {
	s := w.has(id, owner)
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	s.Instance = hold
	w.view.sessions[id] = s
	return s
}

// taken is a request to move a session.
func taken(s session.Session, instance, named uint64) session.Request {
	tok := token(s)
	tok.Attachment = named
	return session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: instance, Attempt: 1}}
}

// unheard runs f with a leader that has not heard node 3, so its entries name no attachment.
func unheard(t *testing.T, f func(w *world, m *member)) {
	t.Helper()
	trio(t, func(w *world) {
		m := w.join(2, prompt)
		defer w.run()()
		w.at(0)
		f(w, m)
	})
}

// M1: while an entry cannot name an attachment, the state machine takes every move. So the leader refuses what it would
// refuse.
func TestM1TheLeaderComparesWhileNothingIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		instance uint64
		ahead    int // of the present attachment
		local    bool
		want     error
	}{
		"the present attachment":            {other, 0, false, nil},
		"a former attachment":               {other, -1, false, session.ErrMoved},
		"a local attachment":                {other, 0, true, session.ErrMoved},
		"a later one, at a deposed leader":  {other, 1, false, session.ErrLagging},
		"a former one by the same instance": {hold, -1, false, nil},
		"a local one by the same instance":  {hold, 0, true, nil},
		"a later one, by the same instance": {hold, 1, false, nil},
		"a former local one":                {other, -1, true, session.ErrMoved},
	} {
		t.Run(name, func(t *testing.T) {
			unheard(t, func(w *world, m *member) {
				w.has(4, 1)
				s := w.held(5, 1)
				named := uint64(int(s.Attachment) + tt.ahead)
				r := taken(s, tt.instance, named)
				r.Resume.Token.Local = tt.local
				got := m.ask(r)
				moves, _ := proposed[session.MoveSession](w.log)
				if !errors.Is(got.Err, tt.want) || (tt.want == nil) != (len(moves) == 1) {
					t.Fatalf("%+v, and proposed %+v; want %v", got, moves, tt.want)
				}
				if len(moves) == 1 && (moves[0].Named != 0 || moves[0].NamedLocal) {
					t.Errorf("proposed %+v, which names something", moves[0])
				}
				if moved, ok := errors.AsType[*session.MovedError](got.Err); ok &&
					*moved != (session.MovedError{Attachment: s.Attachment, Instance: hold}) {
					t.Errorf("told %+v", moved)
				}
				if tt.local {
					return
				}
				many := &session.ResumesRequest{Instance: tt.instance, Sessions: resumes(s).Sessions}
				many.Sessions[0].Attachment = w.of(5).Attachment + uint64(tt.ahead)
				if one := m.ask(session.Request{Resumes: many}).Moved[0]; !errors.Is(one.Err, tt.want) {
					t.Errorf("one of many: %+v, want %v", one, tt.want)
				}
			})
		})
	}
}

// of returns the session as the state has it.
func (w *world) of(id session.ID) session.Session {
	s, _ := w.view.Session(id)
	return s
}

// M1: a move that names nothing is compared with a state that no move under way changes. Two resumes that name the same
// attachment never both take the session.
func TestM1MovesThatNameNothingGoOneByOne(t *testing.T) {
	unheard(t, func(w *world, m *member) {
		s, elsewhere := w.held(5, 1), w.held(6, 1)
		decide := make(chan error)
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if move, ok := c.(session.MoveSession); !ok || move.ID != s.ID {
				return session.Result{}, nil, false
			}
			err := <-decide
			return session.Result{}, err, err != nil
		})
		first, stale := taken(s, other, s.Attachment), taken(s, 99, s.Attachment)
		first.Seq = 1
		m.asks(first)
		busy := func(when string) {
			t.Helper()
			limit, ok := errors.AsType[*session.LimitError](m.ask(stale).Err)
			if !ok || limit.Name != "moves_per_session" || limit.RetryAfter != session.BusyRetryAfter {
				t.Fatalf("%s: %+v, want a limit that passes", when, limit)
			}
		}
		busy("while a move is under way")
		if r := m.ask(taken(elsewhere, other, elsewhere.Attachment)); r.Err != nil {
			t.Errorf("a move of another session: %v", r.Err)
		}
		w.written.Store(1)
		busy("while a move is under way that names nothing")
		decide <- nil
		w.at(ms)
		w.log.decides(nil)
		if r := m.replied(1); r == nil || r.Err != nil || w.of(5).Instance != other {
			t.Errorf("the first move: %+v", r)
		}
		w.written.Store(0)
		if r := m.ask(stale); !errors.Is(r.Err, session.ErrMoved) {
			t.Errorf("the second move of the attachment: %+v, want ErrMoved", r)
		}
		w.written.Store(1)
		m.ask(stale) // the fake log takes what it is given
		moves, _ := proposed[session.MoveSession](w.log)
		if last := moves[len(moves)-1]; len(moves) != 3 || last.Named != s.Attachment {
			t.Errorf("proposed %+v, want the last of three to name the attachment", moves)
		}
	})
}

// M1: a move whose outcome is unknown may be in the log yet. It stays under way until the log has decided it.
func TestM1AMoveOfUnknownOutcomeIsUnderWay(t *testing.T) {
	unheard(t, func(w *world, m *member) {
		s := w.held(5, 1)
		w.log.decides(func(context.Context, session.Command) (session.Result, error, bool) {
			return session.Result{}, session.ErrOutcomeUnknown, true
		})
		if r := m.ask(taken(s, other, s.Attachment)); !errors.Is(r.Err, session.ErrOutcomeUnknown) {
			t.Fatalf("%+v, want an unknown outcome", r)
		}
		w.log.decides(nil)
		second := taken(s, 99, s.Attachment)
		if r := m.ask(second); !errors.Is(r.Err, session.ErrLimit) {
			t.Errorf("while the log may decide it yet: %+v, want a limit", r)
		}
		w.log.apply(session.MoveSession{ID: 5, NewOwner: 2, Instance: other}, term)
		if r := m.ask(second); !errors.Is(r.Err, session.ErrMoved) {
			t.Errorf("once the log has decided: %+v, want ErrMoved", r)
		}
		if r := m.ask(taken(s, 99, w.of(5).Attachment)); r.Err != nil {
			t.Errorf("a move of the present attachment: %v", r.Err)
		}
	})
}
