package learner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// N4: the node reports a move to a client once it has applied the move itself, and is LAGGING after a bounded wait.
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
					t.Errorf("%v after %v, want %v once the node has applied the move", err, time.Since(begun),
						session.ErrMoved)
				}
				if err := told(); !errors.Is(err, session.ErrMoved) {
					t.Errorf("%v, want %v", err, session.ErrMoved)
				}
			})
		})
	}
}

// N4: only its node knows a local session. It can be resumed there however much its client has seen elsewhere.
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
		// Only the node knows how the session ended, too (N2 read-only refusals).
		_, err := w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: own.Token, Instance: 1, Attempt: 30, Seen: 100})
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil {
			t.Errorf("resume of an ended session: %v, want its certificate", err)
		}
		_, err = w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{Seen: 100})
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil {
			t.Errorf("find of an ended session: %v, want its certificate", err)
		}
		w.unasked("local sessions")
	})
}

// N4, L8: during an upgrade the log may know the session, so the node waits for the index that the client has seen.
func TestN4AnUpgradeUnderWayIsNotTheNodesAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := readWrite(t)
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
			t.Errorf("resume once the session is global: %v, want %v", err, session.ErrLagging)
		}
		w.unasked("a node that is behind")
	})
}

// N4: a read first waits, for a bounded time, until the node has applied what the client has seen.
func TestN4Seen(t *testing.T) {
	reads := map[string]func(w *world, g session.Grant, seen uint64) error{
		"find": func(w *world, g session.Grant, seen uint64) error {
			_, err := w.server.Find(w.t.Context(), g.Session.ID, session.ReadOptions{Seen: seen, AllowReadOnly: true})
			return err
		},
		"list": func(w *world, _ session.Grant, seen uint64) error {
			_, err := w.server.List(w.t.Context(),
				session.Query{Size: 10, Read: session.ReadOptions{Seen: seen, AllowReadOnly: true}})
			return err
		},
	}
	for name, do := range reads {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w, g := cutOff(t)
				w.openLocal(w.conn, 1)
				begun := time.Now()
				if err := do(w, g, 8); !errors.Is(err, session.ErrLagging) || time.Since(begun) != time.Second {
					t.Errorf("of a client that has seen 8: %v after %v, want %v after 1 s", err, time.Since(begun),
						session.ErrLagging)
				}
				if err := do(w, g, 7); err != nil {
					t.Errorf("of a client that has seen 7: %v", err)
				}
				w.unasked("of a node that is behind")
				time.AfterFunc(500*time.Millisecond, func() { w.view.apply(8) })
				if err := do(w, g, 8); err != nil {
					t.Errorf("once the node has applied 8: %v", err)
				}
			})
		})
	}
}

// N4: a node asks its leader for nothing before it has applied what the client has seen.
func TestN4SeenBeforeTheLeaderIsAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		g := w.open(1, 1)
		w.view.apply(7)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resume := session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1, Seen: 8}
		if _, err := w.conn.Resume(ctx, resume); !errors.Is(err, session.ErrLagging) {
			t.Errorf("resume: %v, want %v", err, session.ErrLagging)
		}
		if _, err := w.server.Find(ctx, 1, session.ReadOptions{Seen: 8}); !errors.Is(err, session.ErrLagging) {
			t.Errorf("find: %v, want %v", err, session.ErrLagging)
		}
		if _, err := w.server.List(ctx, session.Query{Size: 1, Read: session.ReadOptions{Seen: 8}}); !errors.Is(err,
			session.ErrLagging) {
			t.Errorf("list: %v, want %v", err, session.ErrLagging)
		}
		w.unasked("a node that is behind")
		time.AfterFunc(time.Second/2, func() { w.view.apply(8) })
		done := later(func() (session.Grant, error) { return w.conn.Resume(t.Context(), resume) })
		asked := w.leader.request()
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 2}
		w.view.put(s)
		w.leader.reply(session.Reply{Seq: asked.Seq, Term: 1, Session: s})
		if got := <-done; got.err != nil || asked.Resume == nil {
			t.Errorf("resume once the node has applied 8: %v", got.err)
		}
	})
}

// N4: the node returns the index of the state that reads show, even while an entry's observers are being notified.
func TestN4IndexIsOfWhatReadsShow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := cutOff(t)
		w.view.show(8)
		if got := w.server.State().Index; got != 8 {
			t.Errorf("index is %d, want 8", got)
		}
	})
}

// N4: the node does not report an end that it has not applied itself, because no index of its own would cover the end.
func TestN4AnEndThatIsNotAppliedHereIsNotTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		g := w.open(1, 1)
		resume := func() error {
			_, err := w.conn.Resume(t.Context(), session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
			return err
		}
		open := func() error {
			_, err := w.conn.Open(t.Context(), session.OpenRequest{
				Spec:      session.Spec{Timeout: timeout},
				RequestID: session.RequestID{1},
			})
			return err
		}
		certified := &session.ExpiredError{ID: 1, Certificate: &session.Certificate{ID: 1, Index: 9}}
		for name, tt := range map[string]struct {
			ask  func() error
			told error
		}{
			"resume":                              {resume, &session.ExpiredError{ID: 1}},
			"resume, by the certificate":          {resume, certified},
			"repeat of an open, by a certificate": {open, certified},
		} {
			done := make(chan error)
			go func() { done <- tt.ask() }()
			asked := w.leader.request()
			w.leader.reply(session.Reply{Seq: asked.Seq, Index: 9, Err: tt.told})
			if err := <-done; !errors.Is(err, session.ErrLagging) {
				t.Errorf("%s: %v, want %v", name, err, session.ErrLagging)
			}
		}
	})
}

// M5: a request that waits for an attachment wakes when the entry's observers are notified. It then waits only until
// the attachment shows.
func TestM5AnAttachmentIsAwaitedDuringItsNotification(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		begun := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = w.conn.TouchToken(t.Context(), w.token(1, 2)) // the outcome does not matter here
		}()
		synctest.Wait()
		w.view.show(2)
		w.server.Applied(2, 1, nil)
		synctest.Wait() // other observers are told meanwhile
		w.view.put(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 2})
		w.view.apply(2)
		<-done
		if waited := time.Since(begun); waited > time.Millisecond { // the fake looks that often
			t.Errorf("waited %v for an attachment that was there at once", waited)
		}
	})
}

// An end without a certificate still names its session, to a client that knew only the request id of its open.
func TestAnEndWithoutACertificateNamesItsSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		done := w.opening()
		asked := w.leader.request()
		w.leader.reply(session.Reply{Seq: asked.Seq, Err: &session.ExpiredError{ID: 7}})
		if gone, ok := errors.AsType[*session.ExpiredError]((<-done).err); !ok || gone.ID != 7 {
			t.Errorf("told %v, want the end of session 7", gone)
		}
	})
}
