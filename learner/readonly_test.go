package learner

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// What is read from the applied state says so, also when the node is read-write again before it is told.
func TestN3OldStateSaysSo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, g := cutOff(t)
		allow := session.ReadOptions{AllowReadOnly: true}
		between := func() {
			t.Helper()
			time.Sleep(readOnlyAfter + look)
			w.is(session.ModeReadOnly)
			w.view.onSession = w.good
		}
		between()
		if l, err := w.server.Find(t.Context(), g.Session.ID, allow); err != nil || !l.Applied {
			t.Errorf("found %+v, %v; want it marked as applied", l, err)
		}
		w.is(session.ModeReadWrite)
		w.view.drop(session.Certificate{ID: 2, Cause: session.CauseExpired})
		for _, id := range []session.ID{2, 77} {
			between()
			_, err := w.server.Find(t.Context(), id, allow)
			if _, applied := errors.AsType[*session.AppliedError](err); !applied ||
				!errors.Is(err, session.ErrExpired) {
				t.Errorf("of %v: %v, want an AppliedError that is %v", id, err, session.ErrExpired)
			}
			w.is(session.ModeReadWrite)
		}
		time.Sleep(readOnlyAfter + look)
		if page, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow}); err != nil || !page.Applied {
			t.Errorf("listed %+v, %v; want it marked as applied", page, err)
		}
		w.unasked("reads of the applied state")
	})
}

// What a leader vouches for is not marked.
func TestN3LinearizableReadsAreNotMarked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := cutOff(t)
		w.good()
		done := make(chan error)
		go func() {
			_, err := w.server.Find(t.Context(), 77, session.ReadOptions{AllowReadOnly: true})
			done <- err
		}()
		asked := w.leader.request()
		time.Sleep(readOnlyAfter + look) // the leader's word is late
		w.leader.reply(session.Reply{Seq: asked.Seq, Index: 7, Remaining: []time.Duration{-1}})
		err := <-done
		if _, applied := errors.AsType[*session.AppliedError](err); applied || !errors.Is(err, session.ErrExpired) {
			t.Errorf("%v, want an unmarked %v", err, session.ErrExpired)
		}
	})
}

// A move that the leader tells of is told on once this node has applied it, in bounded time; so is an end.
func TestN4AMoveThatIsNotAppliedHereIsNotTold(t *testing.T) {
	for name, do := range map[string]func(w *world, g session.Grant) error{
		"resume": func(w *world, g session.Grant) error {
			_, err := w.conn.Resume(w.t.Context(), session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
			return err
		},
		"close": func(w *world, g session.Grant) error { return w.conn.Close(w.t.Context(), g.Token) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.follow()
				g := w.open(1, 1)
				w.view.apply(90)
				told := func() error {
					done := make(chan error)
					go func() { done <- do(w, g) }()
					asked := w.leader.request()
					w.leader.reply(session.Reply{Seq: asked.Seq, Index: 100, Err: session.ErrMoved})
					return <-done
				}
				begun := time.Now()
				if err := told(); !errors.Is(err, session.ErrLagging) || time.Since(begun) != time.Second {
					t.Errorf("%v after %v, want %v after 1 s", err, time.Since(begun), session.ErrLagging)
				}
				begun = time.Now()
				time.AfterFunc(time.Second/2, func() { w.view.apply(100) })
				if err := told(); !errors.Is(err, session.ErrMoved) || time.Since(begun) < time.Second/2 {
					t.Errorf("%v after %v, want %v once the node has come so far", err, time.Since(begun),
						session.ErrMoved)
				}
				if err := told(); !errors.Is(err, session.ErrMoved) {
					t.Errorf("%v, want %v", err, session.ErrMoved)
				}
			})
		})
	}
}

// A local session is its node's alone: it lives on where it is, however much its client has seen elsewhere.
func TestN4ALocalSessionNeedsNoLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := cutOff(t)
		own := w.openLocal(w.conn, 1)
		for attempt := range uint64(20) {
			time.Sleep(timeout / 2)
			begun := time.Now()
			g, err := w.conn.Resume(t.Context(),
				session.ResumeRequest{Token: own.Token, Instance: 1, Attempt: attempt + 1, Seen: 100})
			if err != nil || g.SafeFor != promised(0) || time.Since(begun) != 0 {
				t.Fatalf("resume %d: %+v, %v after %v", attempt, g, err, time.Since(begun))
			}
			own = g
			if l, err := w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{Seen: 100}); err != nil ||
				l.Remaining <= 0 || l.Applied {
				t.Fatalf("found %+v, %v", l, err)
			}
		}
		if err := w.conn.Close(t.Context(), own.Token); err != nil {
			t.Fatal(err)
		}
		// Nor does anybody else know how it ended (N2).
		_, err := w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: own.Token, Instance: 1, Attempt: 30, Seen: 100})
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil {
			t.Errorf("resume of an ended one: %v, want its certificate", err)
		}
		_, err = w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{Seen: 100})
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil {
			t.Errorf("find of an ended one: %v, want its certificate", err)
		}
		w.unasked("local sessions")
	})
}

// While an upgrade is under way the log may know of the session, and what a client has seen counts.
func TestN4AnUpgradeUnderWayIsNotTheNodesAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorldOf(t, readOnlyConfig())
		w.follow()
		w.claims(firstLocal)
		w.view.apply(7)
		w.good()
		own := w.openLocal(w.conn, 1)
		done := w.upgrade(w.conn, own.Token)
		seq, r := w.asked()
		if _, err := w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: own.Token, Instance: 1, Attempt: 1, Seen: 100}); !errors.Is(err,
			session.ErrLagging) {
			t.Errorf("resume: %v, want %v", err, session.ErrLagging)
		}
		if _, err := w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{Seen: 100}); !errors.Is(err,
			session.ErrLagging) {
			t.Errorf("find: %v, want %v", err, session.ErrLagging)
		}
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 8})
		<-done
		if _, err := w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: own.Token, Instance: 1, Attempt: 1, Seen: 100}); !errors.Is(err,
			session.ErrLagging) {
			t.Errorf("resume once it is global: %v, want %v", err, session.ErrLagging)
		}
		w.unasked("a node that is behind")
	})
}

// An upgrade whose outcome is unknown keeps that until the log decides, also while the node is read-only.
func TestN2AnUpgradeOfUnknownOutcomeIsNotRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorldOf(t, readOnlyConfig())
		w.follow()
		w.claims(firstLocal)
		w.view.apply(7)
		w.good()
		own := w.openLocal(w.conn, 1)
		done := w.upgrade(w.conn, own.Token)
		_, first := w.asked()
		first = new(*first)
		w.leader.end()
		time.Sleep(5 * timeout)
		w.is(session.ModeReadOnly)
		if l, err := w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{AllowReadOnly: true}); err != nil ||
			!l.Session.Local || !l.Applied {
			t.Errorf("find: %+v, %v; want the local session, marked as what may be old", l, err)
		}
		select {
		case got := <-done:
			t.Fatalf("answered %+v while the outcome is unknown", got)
		default:
		}
		if w.server.local.flightOf(own.Session.ID) == nil || w.events.ends() > 0 {
			t.Error("the session is local again, or has ended, while the outcome is unknown (L8)")
		}
		w.follow()
		synctest.Wait()
		w.unasked("a read-only node's upgrade")
		w.leader.beat(session.Heartbeat{Good: 9})
		seq, again := w.asked()
		if !reflect.DeepEqual(again, first) {
			t.Errorf("asked for %+v, want the same again: %+v", again, first)
		}
		s := w.global(again, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: w.view.AppliedIndex()})
		if got := <-done; got.err != nil || got.Token.Attachment != 40 {
			t.Errorf("upgraded to %+v, %v", got.Token, got.err)
		}
	})
}

// pausing is a server whose process a test stops: its stall detector does not look then.
func pausing(t *testing.T) (s *Server, run func(d time.Duration)) {
	t.Helper()
	cfg := readOnlyConfig()
	cfg.Local = false
	view := newFakeView()
	view.apply(7)
	s = NewServer(cfg, view)
	return s, func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(look) {
			s.clock.look()
		}
		s.clock.look()
	}
}

// Time before a node could hear of anybody does not make it read-only: its state is being restored.
func TestN1QuietCountsFromRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, run := pausing(t)
		is := func(want session.Mode) {
			t.Helper()
			if got := s.State().Mode; got != want {
				t.Errorf("is %v, want %v", got, want)
			}
		}
		run(time.Minute)
		is(session.ModeNoLeader)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Run(ctx) })
		synctest.Wait()
		time.Sleep(readOnlyAfter)
		is(session.ModeNoLeader)
		time.Sleep(time.Nanosecond)
		is(session.ModeReadOnly)
		cancel()
		wg.Wait()
	})
}

// Nor does time in which its process did not run, whoever looks first when it does again: what was good meanwhile waits
// in a buffer.
func TestN1QuietCountsFromTheEndOfAStall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, run := pausing(t)
		is := func(want session.Mode) {
			t.Helper()
			if got := s.State().Mode; got != want {
				t.Errorf("is %v, want %v", got, want)
			}
		}
		s.standing.begin(s.clock.look())
		run(readOnlyAfter + look)
		is(session.ModeReadOnly)
		time.Sleep(interval + 1)
		is(session.ModeNoLeader) // before the stall detector looked
		if _, err := s.Find(t.Context(), 1, session.ReadOptions{AllowReadOnly: true}); !errors.Is(err,
			session.ErrNoLeader) {
			t.Errorf("a read when it runs again: %v, want %v", err, session.ErrNoLeader)
		}
		run(readOnlyAfter)
		is(session.ModeNoLeader)
		run(look)
		is(session.ModeReadOnly)
		time.Sleep(interval)
		is(session.ModeReadOnly) // less is no stall
	})
}

// While an upgrade is under way other nodes may show the session as a global one already: a read at its own node asks
// the leader (R4).
func TestR4AReadDuringAnUpgradeAsksTheLeader(t *testing.T) {
	type found struct {
		session.Listed
		err error
	}
	for name, global := range map[string]bool{"which has taken effect": true, "which has not": false} {
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
