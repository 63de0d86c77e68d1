package learner

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestN2RefusedBeforeAnythingIsAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, g := cutOff(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if w.server.Ready() == nil {
			t.Error("a read-only node is ready")
		}
		own := w.openLocal(w.conn, 1)
		elsewhere := g.Token
		elsewhere.ID, elsewhere.Local = 9<<56|5, true
		elsewhere.Credential, _ = w.view.Credential(elsewhere.ID)
		for what, do := range map[string]func() error{
			"open": func() error {
				_, err := w.conn.Open(ctx, session.OpenRequest{Spec: session.Spec{Timeout: timeout}})
				return err
			},
			"resume": func() error {
				_, err := w.conn.Resume(ctx, session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
				return err
			},
			"resume of a client that has seen more": func() error {
				begun := time.Now()
				_, err := w.conn.Resume(ctx, session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1, Seen: 100})
				if time.Since(begun) != 0 {
					t.Error("the resume was kept waiting")
				}
				return err
			},
			"resume of another node's": func() error {
				_, err := w.conn.Resume(ctx, session.ResumeRequest{Token: elsewhere, Instance: 1, Attempt: 1})
				return err
			},
			"close":                   func() error { return w.conn.Close(ctx, g.Token) },
			"close of another node's": func() error { return w.conn.Close(ctx, elsewhere) },
			"upgrade": func() error {
				_, err := w.conn.Upgrade(ctx, own.Token)
				return err
			},
			"upgrade of a global one": func() error {
				_, err := w.conn.Upgrade(ctx, g.Token)
				return err
			},
			"open that waits for no one": func() error {
				told := errors.New("not told")
				w.server.upstream.submit(session.Request{Open: &session.OpenRequest{Spec: session.Spec{Timeout: timeout}}},
					func(_ session.Reply, err error) { told = err })
				return told
			},
			"claim": func() error {
				_, err := w.server.AllocateIDs(ctx, session.ClaimRequest{Count: 1})
				return err
			},
		} {
			if err := do(); !errors.Is(err, session.ErrReadOnly) {
				t.Errorf("%s: %v, want %v", what, err, session.ErrReadOnly)
			}
			w.unasked(what)
		}
		if !w.server.local.Decides(own.Session.ID) {
			t.Error("an upgrade is under way")
		}
	})
}

// N2: on a read-only node touches count for the next leader, and promises rest on earlier confirmations. Local sessions
// need no other node.
func TestN2TouchesAndLocalSessionsAreAsEver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, g := cutOff(t)
		// The open was confirmed by its commit, readOnlyAfter + look before.
		touched := w.conn.Touch(nil)
		want := promised(readOnlyAfter + look)
		if touched.SafeFor != want || len(touched.Failures) > 0 {
			t.Errorf("touched: %+v, want a promise of %v", touched, want)
		}
		if safe, err := w.conn.TouchToken(t.Context(), g.Token); safe != want || err != nil {
			t.Errorf("touched by token: %v, %v; want %v", safe, err, want)
		}
		own := w.openLocal(w.conn, 1)
		if _, err := w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: own.Token, Instance: 1, Attempt: 1, Seen: 7}); err != nil {
			t.Errorf("resume of a local session: %v", err)
		}
		if l, err := w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{}); err != nil || l.Remaining <= 0 {
			t.Errorf("a local session is shown as %+v, %v", l, err)
		}
		token := own.Token
		token.Attachment++
		if err := w.conn.Close(t.Context(), token); err != nil {
			t.Errorf("close of a local session: %v", err)
		}
		w.unasked("local sessions")
		time.Sleep(time.Second)
		if a := w.leader.beat(session.Heartbeat{}); a.touches[1] != time.Second {
			t.Errorf("the leader was told of touches %v, want the touch of 1 s ago", a.touches)
		}
	})
}

// N2: a request that the leader got before the node became read-only keeps its own outcome.
func TestN2UnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := readWrite(t)
		done := w.opening()
		asked := w.leader.request()
		time.Sleep(readOnlyAfter + look)
		w.is(session.ModeReadOnly)
		s := session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: 1}
		w.view.put(s)
		w.leader.reply(session.Reply{Seq: asked.Seq, Term: 1, Session: s})
		if got := <-done; got.err != nil {
			t.Errorf("an open that was under way: %v", got.err)
		}
	})
}

func TestN3ReadsOfTheAppliedState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, g := cutOff(t)
		own := w.openLocal(w.conn, 1)
		allow := session.ReadOptions{AllowReadOnly: true, Seen: 7}
		if l, err := w.server.Find(t.Context(), g.Session.ID, allow); err != nil || l.Session.ID != g.Session.ID ||
			l.Remaining >= 0 {
			t.Errorf("found %+v, %v; want session 1 without a remaining time", l, err)
		}
		w.view.drop(session.Certificate{ID: 2, Cause: session.CauseExpired})
		_, err := w.server.Find(t.Context(), 2, allow)
		if gone, ok := errors.AsType[*session.ExpiredError](err); !ok || gone.Certificate == nil {
			t.Errorf("find an ended session: %v, want its certificate", err)
		}
		if _, err = w.server.Find(t.Context(), 3, allow); !errors.Is(err, session.ErrExpired) {
			t.Errorf("find a session that the state does not have: %v, want %v", err, session.ErrExpired)
		}
		page, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow})
		if err != nil || len(page.Sessions) != 2 || page.Sessions[0].Remaining >= 0 ||
			page.Sessions[1].Session.ID != own.Session.ID || page.Sessions[1].Remaining <= 0 {
			t.Errorf("listed %+v, %v; want session 1 without a remaining time, and the local session with its own",
				page, err)
		}
		w.unasked("reads of the applied state")
		for _, filter := range []session.Filter{{MinRemaining: time.Second}, {MaxRemaining: time.Second}} {
			_, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow, Filter: filter})
			if !errors.Is(err, session.ErrReadOnly) {
				t.Errorf("filter %+v: %v, want %v", filter, err, session.ErrReadOnly)
			}
			filter.Scope = session.ScopeLocal
			if _, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow, Filter: filter}); err != nil {
				t.Errorf("filter %+v of local sessions: %v", filter, err)
			}
		}
	})
}

// N3, R4: a read asks the leader when the client does not allow a read-only node to answer, or the node is not
// read-only.
func TestN3OtherReadsAreLinearizable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, g := cutOff(t)
		read := func(o session.ReadOptions) {
			t.Helper()
			done := make(chan session.Listed)
			go func() {
				l, err := w.server.Find(t.Context(), g.Session.ID, o)
				if err != nil {
					t.Errorf("read: %v", err)
				}
				done <- l
			}()
			asked := w.leader.request()
			if asked.Read == nil {
				t.Fatalf("asked for %+v, want a read", asked)
			}
			w.leader.reply(session.Reply{Seq: asked.Seq, Index: 7, Remaining: []time.Duration{time.Second}})
			if l := <-done; l.Remaining != time.Second {
				t.Errorf("found %+v, want the remaining time of 1 s that the leader told", l)
			}
		}
		read(session.ReadOptions{})
		w.good()
		read(session.ReadOptions{AllowReadOnly: true})
		w.leader.end()
		time.Sleep(readOnlyAfter + 1)
		if _, err := w.server.Find(t.Context(), g.Session.ID, session.ReadOptions{}); !errors.Is(err,
			session.ErrNoLeader) {
			t.Errorf("a read that allows nothing: %v, want %v", err, session.ErrNoLeader)
		}
	})
}

// N3: an answer from the applied state is marked, even when the node is read-write again before the answer is sent.
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
				t.Errorf("find %v: %v, want an AppliedError that is %v", id, err, session.ErrExpired)
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

// N3: an answer that the leader vouches for is not marked.
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
		time.Sleep(readOnlyAfter + look) // the leader's reply is late
		w.leader.reply(session.Reply{Seq: asked.Seq, Index: 7, Remaining: []time.Duration{-1}})
		err := <-done
		if _, applied := errors.AsType[*session.AppliedError](err); applied || !errors.Is(err, session.ErrExpired) {
			t.Errorf("%v, want an unmarked %v", err, session.ErrExpired)
		}
	})
}

// N2, L8: an upgrade whose outcome is unknown is not refused while the node is read-only: the log decides.
func TestN2AnUpgradeOfUnknownOutcomeIsNotRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := readWrite(t)
		own := w.openLocal(w.conn, 1)
		done := w.upgrade(w.conn, own.Token)
		_, first := w.asked()
		first = new(*first)
		w.leader.end()
		time.Sleep(5 * timeout)
		w.is(session.ModeReadOnly)
		if l, err := w.server.Find(t.Context(), own.Session.ID, session.ReadOptions{AllowReadOnly: true}); err != nil ||
			!l.Session.Local || !l.Applied {
			t.Errorf("find: %+v, %v; want the local session, marked as applied", l, err)
		}
		select {
		case got := <-done:
			t.Fatalf("answered %+v while the outcome is unknown", got)
		default:
		}
		if w.server.local.Decides(own.Session.ID) || w.events.ends() > 0 {
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
