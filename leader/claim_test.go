package leader_test

import (
	"context"
	"errors"
	"testing"

	"holdfast/session"
)

// TestO3ClaimsForTheNodeThatAsks holds that a claim is proposed for the node whose stream it came on, and answered with
// what the state machine said.
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

// TestO3RefusesClaims holds that what would use up a node's ids is not proposed.
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
