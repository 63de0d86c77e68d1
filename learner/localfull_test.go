package learner

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// fullWorld is a stocked one with room for so many local sessions.
func fullWorld(t *testing.T, sessions uint64) *world {
	t.Helper()
	w := newWorldOf(t, Config{
		Node: 1, Interval: interval, ExpiryInterval: width, Limits: session.DefaultLimits(timeout / 4), Local: true,
		Upgrade:     true,
		Capacity:    session.Capacity{MaxSessions: sessions, MaxBytes: session.MinCapacityBytes},
		LaggingWait: timeout, Try: func() []string { return nil }, Logger: hclog.NewNullLogger(),
	})
	w.follow()
	w.claims(firstLocal)
	return w
}

func (w *world) openLocalLabelled(request byte, labels session.Labels) (session.Grant, error) {
	return w.conn.Open(w.t.Context(), session.OpenRequest{
		Local: true, Timeout: timeout, RequestID: session.RequestID{request}, MS: 7, Labels: labels,
	})
}

// O4: local sessions have the bounds of their node's own configuration; a refused open costs no id, and a repeat is
// answered.
func TestO4LocalSessions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := fullWorld(t, 2)
		first := w.openLocal(w.conn, 1)
		second := w.openLocal(w.conn, 2)
		ids := w.server.Stats().LocalIDs
		for range 3 {
			_, err := w.openLocalLabelled(3, nil)
			limit, ok := errors.AsType[*session.LimitError](err)
			if !ok || limit.Name != "max_sessions" ||
				!strings.Contains(limit.Limit, "there are 2, for local sessions of this node") ||
				limit.RetryAfter <= 0 {
				t.Fatalf("the third of two: %v, want a LimitError of max_sessions", err)
			}
		}
		if got := w.server.Stats(); got.LocalIDs != ids || got.Local != 2 {
			t.Errorf("%d ids, %d sessions after refusals, want %d and 2", got.LocalIDs, got.Local, ids)
		}
		if again := w.openLocal(w.conn, 1); again.Session.ID != first.Session.ID {
			t.Errorf("the repeat of an open: %v, want %v", again.Session.ID, first.Session.ID)
		}
		if err := w.conn.Close(t.Context(), second.Token); err != nil {
			t.Fatal(err)
		}
		w.openLocal(w.conn, 3)
	})
}

// O4: labels count, a resume counts nothing more, and what ends is given back to the byte.
func TestO4LocalBytes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := fullWorld(t, 1000)
		labels := session.Labels{{Key: "app", Value: strings.Repeat("x", session.MaxLabelValue)}}
		g, err := w.openLocalLabelled(1, labels)
		if err != nil {
			t.Fatal(err)
		}
		want := session.Usage{
			Sessions: 1, Bytes: session.SessionBytes + labels.Bytes(), Capacity: w.server.cfg.Capacity,
		}
		if got := w.server.LocalUsage(); got != want {
			t.Errorf("used %+v, want %+v", got, want)
		}
		resumed, err := w.conn.Resume(t.Context(), session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := w.server.LocalUsage(); got != want {
			t.Errorf("after a resume used %+v, want %+v", got, want)
		}
		if err := w.conn.Close(t.Context(), resumed.Token); err != nil {
			t.Fatal(err)
		}
		if got := w.server.LocalUsage(); got.Sessions != 0 || got.Bytes != 0 {
			t.Errorf("after the end used %+v, want nothing", got)
		}
		w.server.local.mu.Lock()
		w.server.local.usage.Bytes = session.MinCapacityBytes
		w.server.local.mu.Unlock()
		if _, err := w.openLocalLabelled(2, nil); !errors.Is(err, session.ErrLimit) ||
			!strings.Contains(err.Error(), "max_state_bytes") {
			t.Errorf("without bytes left: %v, want a LimitError of max_state_bytes", err)
		}
	})
}
