package leader_test

import (
	"errors"
	"testing"

	"holdfast/session"
)

// O4: without room an open and an upgrade are refused as the state says, and cost no entry. Everything else goes on.
func TestO4NothingIsProposedWithoutRoom(t *testing.T) {
	solo(t, func(w *world, m *member) {
		tok := token(m.ask(session.Request{Open: &session.OpenRequest{Timeout: long}}).Session)
		w.view.mu.Lock()
		w.view.full = &session.LimitError{
			Name: "max_sessions", Limit: "1 sessions, of which there are 1",
			RetryAfter: session.FullRetryAfter,
		}
		w.view.mu.Unlock()
		before := w.log.newest()
		for _, r := range []session.Request{
			{Open: &session.OpenRequest{Timeout: long}}, {
				Upgrade: &session.UpgradeRequest{ID: session.ID(m.hello.Node)<<56 | 1, Timeout: long},
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

// What every member reads is known once each has had a stream.
func TestLogVersion(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		defer w.run()()
		for n, reads := range map[session.Node]uint32{1: 1, 2: 9} {
			w.stream(session.Hello{Node: n, Stream: 1, LogVersion: reads}, prompt)
		}
		if got := w.tracker.LogVersion(); got != 0 {
			t.Errorf("version %d while nothing is known of node 3, want 0", got)
		}
		old := w.stream(session.Hello{Node: 3, Stream: 1}, prompt)
		if got := w.tracker.LogVersion(); got != 0 {
			t.Errorf("version %d with a node of a former release, want 0", got)
		}
		old.cut()
		w.stream(session.Hello{Node: 3, Stream: 2, LogVersion: 1}, prompt)
		if got := w.tracker.LogVersion(); got != session.LogVersion {
			t.Errorf("version %d, want %d", got, session.LogVersion)
		}
	})
}
