package learner

import (
	"errors"
	"strings"
	"testing"

	"holdfast/session"
	"holdfast/test/bubble"
)

// fullWorld has a server with ids, and a capacity for so many local sessions.
func fullWorld(t *testing.T, sessions uint64) *world {
	t.Helper()
	cfg := localConfig()
	cfg.Limits = session.Limits{Min: timeout / 2, Max: 5 * timeout}
	cfg.Capacity = session.Capacity{MaxSessions: sessions, MaxBytes: session.MinCapacityBytes}
	cfg.CatchUpWait = timeout
	w := newWorldOf(t, cfg)
	w.follow()
	w.claims(firstLocal)
	return w
}

// openLocalLabelled opens a local session with labels.
func (w *world) openLocalLabelled(request byte, labels session.Labels) (session.Grant, error) {
	return w.conn.Open(w.t.Context(), session.OpenRequest{
		Local: true, Spec: session.Spec{Timeout: timeout, Labels: labels}, RequestID: session.RequestID{request}, MS: 7,
	})
}

// O4: the node's own configuration bounds its local sessions. A refused open costs no id, and a full node still answers
// a repeat.
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
				!strings.Contains(limit.Limit, "2 open, for local sessions of this node") ||
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

// O4: labels count, a resume costs nothing, and an end frees every byte.
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
	})
}
