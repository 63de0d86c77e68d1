package learner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// L8: touches by token and through the connection come while a session is handed over. Each touch finds the session as
// a local or as a global one.
func TestL8NoTouchFallsBetween(t *testing.T) {
	for round := range uint64(200) {
		w, g := lifting(t)
		view, server, made := w.view, w.server, w.conn
		s := session.Session{ID: g.Session.ID, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: round + 1}
		view.put(s)
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				<-begin
				for range 20 {
					if _, err := made.TouchToken(t.Context(), g.Token); err != nil {
						t.Errorf("touch by token: %v", err)
					}
					if got := made.Touch(nil); len(got.Failures) > 0 {
						t.Errorf("touch of all: %v", got.Failures)
					}
					if got := made.Touch([]session.ID{s.ID}); len(got.Failures) > 0 {
						t.Errorf("touch of one: %v", got.Failures)
					}
				}
			})
		}
		wg.Go(func() {
			<-begin
			server.Applied(1, 1, []session.Change{{Stamp: tree.StampAt(1, 1), Kind: session.Opened, Session: s}})
		})
		close(begin)
		wg.Wait()
		if server.local.Has(s.ID) || server.table.Len() != 1 || t.Failed() {
			t.Fatalf("round %d: %d global sessions, still local: %v", round, server.table.Len(), server.local.Has(s.ID))
		}
	}
}

// R4: during an upgrade, other nodes may already show the session as a global one. So a read at its own node asks the
// leader.
func TestR4AReadDuringAnUpgradeAsksTheLeader(t *testing.T) {
	type found struct {
		session.Listed
		err error
	}
	for name, global := range map[string]bool{"which has taken effect": true, "which has not taken effect": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := stocked(t)
				was := w.openLocal(w.conn, 1)
				w.upgrade(w.conn, was.Token)
				_, r := w.asked()
				got := make(chan found, 1)
				go func() {
					l, err := w.server.Find(t.Context(), was.Session.ID, session.ReadOptions{})
					got <- found{l, err}
				}()
				read := w.leader.request()
				if read.Read == nil {
					t.Fatalf("asked for %+v, want a read", read)
				}
				if global {
					w.global(r, 40)
				}
				w.leader.reply(
					session.Reply{Seq: read.Seq, Index: w.view.AppliedIndex(), Remaining: []time.Duration{time.Second}},
				)
				f := <-got
				if f.err != nil || f.Session.Local == global || global && f.Session.Attachment != 40 {
					t.Errorf("found %+v, %v", f.Session, f.err)
				}
			})
		})
	}
}

// L8: resumes and closes wait for the outcome of a running upgrade, and then act on it.
func TestL8OthersWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		w.upgrade(w.conn, was.Token)
		seq, r := w.asked()
		resumed, closed := w.resuming(w.connect(nil), was.Token), make(chan error, 1)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.conn.Close(ctx, was.Token); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("close whose context ended: %v, want %v", err, session.ErrOutcomeUnknown)
		}
		go func() { closed <- w.conn.Close(t.Context(), was.Token) }()
		synctest.Wait()
		if len(resumed)+len(closed)+len(w.leader.toLeader) > 0 {
			t.Error("a resume or a close did not wait")
		}
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 1})
		for range 2 { // in either order
			switch r := w.leader.request(); {
			case r.Resume != nil:
				w.leader.reply(session.Reply{Seq: r.Seq, Err: session.ErrClosing})
			case r.Close != nil && *r.Close == (session.Token{
				ID: s.ID, Credential: was.Token.Credential,
				Attachment: 40,
			}):
				w.leader.reply(session.Reply{Seq: r.Seq, Index: 1})
			default:
				t.Errorf("asked for %+v", r)
				w.leader.reply(session.Reply{Seq: r.Seq, Err: session.ErrClosing})
			}
		}
		if got := <-resumed; !errors.Is(got.err, session.ErrClosing) {
			t.Errorf("resume: %v", got.err)
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// M4: when a snapshot brings the session, the node serves it as a global one, or sends the client its move or end.
func TestM4ASnapshotDuringAnUpgrade(t *testing.T) {
	for name, tt := range map[string]struct {
		owner       session.Node // 0: the session has ended
		gone, moved int
		want        error
	}{"global here": {1, 0, 0, nil}, "moved": {2, 0, 1, session.ErrMoved}, "ended": {0, 1, 0, session.ErrExpired}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := stocked(t)
				was := w.openLocal(w.conn, 1)
				done := w.upgrade(w.conn, was.Token)
				_, _ = w.asked()
				w.leader.end()
				synctest.Wait()
				if tt.owner != 0 {
					w.view.put(session.Session{
						ID: was.Session.ID, Spec: session.Spec{Timeout: timeout},
						Owner: tt.owner, Attachment: 41,
					})
				} else {
					w.view.drop(session.Certificate{ID: was.Session.ID, Cause: session.CauseExpired, Owner: 1})
				}
				w.server.Restored()
				if w.events.ends() != tt.gone || len(w.events.moved) != tt.moved ||
					tt.moved > 0 && w.events.to[0] != 41 || w.server.Stats().Local != 0 {
					t.Errorf("told %v and %v, %d local sessions left", w.events.gone, w.events.moved,
						w.server.Stats().Local)
				}
				w.follow()
				seq, _ := w.asked()
				if s, ok := w.view.Session(was.Session.ID); ok {
					w.leader.reply(session.Reply{Seq: seq, Session: s, Repeated: true})
				} else {
					w.leader.reply(session.Reply{Seq: seq, Err: &session.ExpiredError{ID: was.Session.ID}})
				}
				got := <-done
				if !errors.Is(got.err, tt.want) || tt.want == nil && (got.err != nil || got.Token.Attachment != 41 ||
					w.server.table.Len() != 1) {
					t.Errorf("upgraded to %+v, %v; want %v", got.Token, got.err, tt.want)
				}
			})
		})
	}
}

// L8, R4: the upgrade of a session on the page may have taken effect, and the session may have ended since. So a list
// at its node reads the log first.
func TestL8AListDuringAnUpgradeReadsTheLog(t *testing.T) {
	for name, scope := range map[string]session.Scope{"of local sessions": session.ScopeLocal, "of all": 0} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := stocked(t)
				was := w.openLocal(w.conn, 1)
				w.upgrade(w.conn, was.Token)
				seq, r := w.asked()
				pages := make(chan session.Page, 1)
				list := func() {
					p, err := w.server.List(t.Context(), session.Query{Size: 10, Filter: session.Filter{Scope: scope}})
					if err != nil {
						t.Error(err)
					}
					pages <- p
				}
				go list()
				synctest.Wait()
				if len(pages) > 0 {
					t.Fatalf("answered without a read: %+v", <-pages)
				}
				asked := w.leader.request()
				if asked.Read == nil {
					t.Fatalf("asked for %+v, want a read", asked)
				}
				s := w.global(r, 40)
				c := session.Certificate{ID: s.ID, Cause: session.CauseClosed, Owner: 1}
				w.view.drop(c)
				w.server.Applied(9, 1, []session.Change{{Stamp: tree.StampAt(9, 1), Kind: session.Ended, Session: s, Certificate: &c}})
				w.view.apply(9)
				w.leader.reply(session.Reply{Seq: asked.Seq, Index: 9})
				if p := <-pages; len(p.Sessions) != 0 {
					t.Errorf("shows %+v, want nothing: the session had ended", p.Sessions)
				}
				w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 9})
			})
		})
	}
}

// L8: a list of local sessions alone asks no other node while none of them is being upgraded.
func TestL8AListOfLocalSessionsAsksNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		w.openLocal(w.conn, 1)
		p, err := w.server.List(t.Context(), session.Query{Size: 10, Filter: session.Filter{Scope: session.ScopeLocal}})
		if err != nil || len(p.Sessions) != 1 || p.Applied {
			t.Errorf("page %+v, %v", p, err)
		}
		w.unasked("a list of local sessions")
	})
}

// L8: a resume of a call that has ended does not wait for an upgrade in flight.
func TestL8AResumeOfAnEndedCall(t *testing.T) {
	w, g := lifting(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		_, err := w.conn.Resume(ctx, session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
		if !errors.Is(err, context.Canceled) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Fatalf("resume: %v, want %v: nothing was asked", err, context.Canceled)
		}
	}
}
