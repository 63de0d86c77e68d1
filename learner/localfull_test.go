package learner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// fullWorld has a server with ids, and with room for so many local sessions.
func fullWorld(t *testing.T, sessions uint64) *world {
	t.Helper()
	cfg := localConfig()
	cfg.Limits = session.Limits{Min: timeout / 2, Max: 5 * timeout}
	cfg.Capacity = session.Capacity{MaxSessions: sessions, MaxBytes: session.MinCapacityBytes}
	cfg.LaggingWait = timeout
	w := newWorldOf(t, cfg)
	w.follow()
	w.claims(firstLocal)
	return w
}

// openLocalLabelled opens a local session with labels.
func (w *world) openLocalLabelled(request byte, labels session.Labels) (session.Grant, error) {
	return w.conn.Open(w.t.Context(), session.OpenRequest{
		Local: true, Timeout: timeout, RequestID: session.RequestID{request}, MS: 7, Labels: labels,
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
		w.server.local.mu.Lock()
		w.server.local.usage.Bytes = session.MinCapacityBytes
		w.server.local.mu.Unlock()
		if _, err := w.openLocalLabelled(2, nil); !errors.Is(err, session.ErrLimit) ||
			!strings.Contains(err.Error(), "max_state_bytes") {
			t.Errorf("without bytes left: %v, want a LimitError of max_state_bytes", err)
		}
	})
}

func TestLocalCertificatesAreBounded(t *testing.T) {
	l := localWith(firstLocal, session.MaxClaim)
	request := func(n int) session.RequestID { return session.RequestID{byte(n), byte(n >> 8)} }
	const more = 5
	for n := range localCertificates + more {
		s, err := l.open(
			opening{OpenRequest: session.OpenRequest{RequestID: request(n)}, timeout: timeout, conn: &connection{}}, 0,
		)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.close(s, 0, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.ended) != localCertificates || len(l.requests) != localCertificates || len(l.ring) != localCertificates ||
		len(l.order) > 1024+1 {
		t.Errorf("keeps %d ends, %d requests, %d of the order", len(l.ended), len(l.requests), len(l.order))
	}
	for n, want := range map[session.ID]bool{0: false, more - 1: false, more: true, localCertificates +
		more - 1: true} {
		if _, got := l.certificate(firstLocal + n); got != want {
			t.Errorf("certificate %d is there: %v, want %v", n, got, want)
		}
	}
}

// The node forgets the oldest upgraded sessions when there are more than it remembers.
func TestUpgradedRequestsAreBounded(t *testing.T) {
	l := localWith(firstLocal, session.MaxClaim)
	const more = 5
	c := &connection{}
	open := func(n int) (*local, error) {
		return l.open(
			opening{
				OpenRequest: session.OpenRequest{RequestID: session.RequestID{byte(n), byte(n >> 8)}},
				timeout:     timeout, conn: c,
			}, 0,
		)
	}
	for n := range localCertificates + more {
		s, err := open(n)
		if err != nil {
			t.Fatal(err)
		}
		if !l.handOver(s.facts.ID, c, session.ErrMoved, func(*local) {}) {
			t.Fatal("not handed over")
		}
	}
	if len(l.requests) != localCertificates || len(l.ring) != localCertificates || len(l.ended) != 0 {
		t.Errorf("keeps %d requests, %d past sessions, %d ends", len(l.requests), len(l.ring), len(l.ended))
	}
	_, err := open(more)
	if global, ok := errors.AsType[*globalError](err); !ok || global.id != firstLocal+more {
		t.Errorf("the repeat of a remembered open: %v, want a globalError", err)
	}
}
