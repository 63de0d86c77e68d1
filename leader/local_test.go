package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// L5: a local token names no attachment of the log. It closes no global session, and resumes a session that has become
// global since.
func TestL5TokensOfLocalSessions(t *testing.T) {
	solo(t, func(w *world, m *member) {
		s := w.has(5, 2)
		tok := token(s)
		tok.Local = true // its number equals the session's attachment by chance
		if r := m.ask(session.Request{Close: &tok}); !errors.Is(r.Err, session.ErrMoved) {
			t.Errorf("close: %v, want %v", r.Err, session.ErrMoved)
		}
		r := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 1, Attempt: 1}})
		if r.Err != nil || r.Session.Attachment <= s.Attachment {
			t.Errorf("resume: %+v", r)
		}
		if moves, _ := proposed[session.MoveSession](w.log); len(moves) != 1 || !moves[0].NamedLocal ||
			moves[0].Named != tok.Attachment {
			t.Errorf("proposed %+v, want one that names a local attachment", moves)
		}
		w.alive(5)
	})
}

// M5: only a leader that still leads after its look-up can say that a session is not global. The attachment of a local
// token does not say how far the leader's state should be.
func TestM5OfTokensOfLocalSessions(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		const mine session.ID = 6
		tok := session.Token{ID: mine, Credential: credential(mine), Attachment: 1 << 40, Local: true}
		var rounds []uint64 // the newest good round at each look-up
		w.view.onSession = func() {
			if rounds = append(rounds, w.tracker.Good()); len(rounds) == 4 {
				w.has(mine, 1) // its upgrade is applied after the first of two looks
			}
		}
		m := w.join(1, prompt)
		defer w.run()()
		w.at(0)
		if r := m.ask(session.Request{Close: &tok}); !errors.Is(r.Err, session.ErrExpired) || len(rounds) != 2 ||
			rounds[1] <= rounds[0] {
			t.Errorf("close of a session that is not global: %v, looked up in rounds %v; want %v after a round", r.Err, rounds,
				session.ErrExpired)
		}
		r := m.ask(session.Request{Resume: &session.ResumeRequest{Token: tok, Instance: 1, Attempt: 1}})
		if r.Err != nil || r.Session.ID != mine {
			t.Errorf("resume of a session that has become global meanwhile: %+v", r)
		}
	})
}

// L7: only the node of a session's id makes it global, and the leader gives it a full timeout from then on.
func TestL7OnlyItsNodeUpgrades(t *testing.T) {
	solo(t, func(w *world, m *member) {
		up := session.UpgradeRequest{ID: 2<<56 | 9, Spec: session.Spec{Timeout: long}}
		made := session.Session{ID: up.ID, Spec: session.Spec{Timeout: long}, Owner: 2, Attachment: 40}
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			asked, ok := c.(session.UpgradeSession)
			if ok {
				w.view.mu.Lock()
				w.view.sessions[made.ID], w.view.attachment = made, made.Attachment
				w.view.mu.Unlock()
				w.tracker.Applied(3, term, []session.Change{{Kind: session.Opened, Session: made}})
			}
			return session.Result{Term: term, Index: 3, Session: made}, nil, ok && asked.ID == up.ID
		})
		other := session.UpgradeRequest{ID: 3<<56 | 9, Spec: session.Spec{Timeout: long}}
		if r := m.ask(session.Request{Upgrade: &other}); !errors.Is(r.Err, session.ErrInvalid) {
			t.Errorf("upgrade of another node's session: %v, want %v", r.Err, session.ErrInvalid)
		}
		w.at(time.Second)
		if r := m.ask(session.Request{Upgrade: &up}); r.Err != nil || r.Session.Attachment != 40 || r.Index != 3 {
			t.Errorf("upgrade: %+v", r)
		}
		due := time.Second + touched
		w.at(due - 1)
		w.alive(up.ID)
		w.at(due + width + beat)
		w.alive()
	})
}
