package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// O3: a claim is proposed for the node on whose stream it arrived, and answered with the result of the state machine.
func TestO3ClaimsForTheNodeThatAsks(t *testing.T) {
	solo(t, func(w *world, m *member) {
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			claim, ok := c.(session.ClaimIDs)
			return session.Result{Term: term, Index: 5, First: 77}, nil, ok && claim.Node == 2
		})
		r := m.ask(session.Request{Claim: &session.ClaimRequest{Count: 10}})
		if r.Err != nil || r.First != 77 || r.Index != 5 {
			t.Errorf("a claim = %+v, want the ids from 77 on", r)
		}
		all, _ := proposed[session.ClaimIDs](w.log)
		if len(all) != 1 || all[0] != (session.ClaimIDs{Node: 2, Count: 10}) {
			t.Errorf("proposed %+v, want the claim of node 2", all)
		}
	})
}

// O3: a claim of too many ids, or of none, is not proposed.
func TestO3RefusesClaims(t *testing.T) {
	solo(t, func(w *world, m *member) {
		for _, count := range []uint32{0, session.MaxClaim + 1} {
			var got *session.FieldError
			if r := m.ask(session.Request{Claim: &session.ClaimRequest{Count: count}}); !errors.As(r.Err, &got) ||
				got.Field != "count" {
				t.Errorf("claim of %d = %v, want a FieldError of count", count, r.Err)
			}
		}
		if all, _ := proposed[session.ClaimIDs](w.log); len(all) > 0 {
			t.Errorf("proposed %+v", all)
		}
	})
}

// An open is proposed for the node that received it, with the negotiated timeout.
func TestOpen(t *testing.T) {
	solo(t, func(w *world, m *member) {
		labels := session.Labels{{Key: "app", Value: "x"}}
		id := session.RequestID{1, 2}
		r := m.ask(session.Request{Open: &session.OpenRequest{
			RequestID: id,
			Spec:      session.Spec{Timeout: time.Hour, Labels: labels},
		}})
		if r.Err != nil || r.Term != term || r.Index != 1 || r.Session.Owner != 2 ||
			r.Session.Timeout != 40*time.Second {
			t.Errorf("reply %+v", r)
		}
		opens, _ := proposed[session.OpenSession](w.log)
		if len(opens) != 1 || opens[0].RequestID != id || opens[0].Node != 2 || len(opens[0].Labels) != 1 {
			t.Errorf("proposed %+v", opens)
		}
		for field, open := range map[string]session.OpenRequest{
			"timeout": {Spec: session.Spec{Timeout: 0}},
			"labels":  {Spec: session.Spec{Timeout: long, Labels: session.Labels{{Key: ""}}}},
		} {
			r := m.ask(session.Request{Open: &open})
			if got, ok := errors.AsType[*session.FieldError](r.Err); !ok || got.Field != field {
				t.Errorf("%s: %v", field, r.Err)
			}
		}
		if opens, _ := proposed[session.OpenSession](w.log); len(opens) != 1 {
			t.Errorf("%d opens were proposed, want 1", len(opens))
		}
	})
}

// O4: at the capacity, an open and an upgrade are refused with the error of the state and cost no entry. All other
// requests continue.
func TestO4NothingIsProposedWithoutRoom(t *testing.T) {
	solo(t, func(w *world, m *member) {
		tok := token(m.ask(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}).Session)
		w.view.mu.Lock()
		w.view.full = &session.LimitError{
			Name: "max_sessions", Limit: "1 sessions, 1 open",
			RetryAfter: session.FullRetryAfter,
		}
		w.view.mu.Unlock()
		before := w.log.newest()
		for _, r := range []session.Request{
			{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}}, {
				Upgrade: &session.UpgradeRequest{
					ID:   session.ID(m.hello.Node)<<56 | 1,
					Spec: session.Spec{Timeout: long},
				},
			},
		} {
			limit, ok := errors.AsType[*session.LimitError](m.ask(r).Err)
			if !ok || limit.Name != "max_sessions" || limit.RetryAfter != session.FullRetryAfter {
				t.Errorf("%+v: %v, want the state's refusal", r, limit)
			}
		}
		if got := w.log.newest(); got != before || w.tracker.Stats().Full != 2 {
			t.Errorf("%d entries were made for what was refused, %d refusals were counted; want 0 and 2", got-before,
				w.tracker.Stats().Full)
		}
		for _, r := range []session.Request{
			{Claim: &session.ClaimRequest{Count: 1}}, {
				Resume: &session.ResumeRequest{Token: tok, Instance: 1, Attempt: 1},
			},
		} {
			if got := m.ask(r); got.Err != nil {
				t.Errorf("%+v: %v", r, got.Err)
			}
		}
	})
}

// X5: the log learns which client process opens a session.
func TestX5TheOpenersInstance(t *testing.T) {
	solo(t, func(w *world, m *member) {
		m.ask(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}, Instance: 7}})
		if opens, _ := proposed[session.OpenSession](w.log); len(opens) != 1 || opens[0].Instance != 7 {
			w.t.Errorf("proposed %+v, want instance 7", opens)
		}
	})
}
