package learner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// readOnlyAfter is that of the nodes of these tests.
const readOnlyAfter = 5 * time.Second

// readOnlyConfig is that of a node which may be read-only, and takes local sessions.
func readOnlyConfig() Config {
	return Config{
		Node: 1, Interval: interval, ExpiryInterval: width,
		Limits: session.Limits{Min: time.Second, Max: 20 * time.Second}, Local: true, Upgrade: true,
		ReadOnly: true, ReadOnlyAfter: readOnlyAfter,
		LaggingWait: time.Second, Try: func() []string { return nil }, Logger: hclog.NewNullLogger(),
	}
}

// cutOff has a node that served: with a session, a connection that has it, ids for local ones, and entry 7 applied. Its
// leader is there still, and has had no good round for long: the node is read-only.
func cutOff(t *testing.T) (*world, session.Grant) {
	t.Helper()
	w := newWorldOf(t, readOnlyConfig())
	w.follow()
	w.claims(firstLocal)
	g := w.open(1, 1)
	w.view.apply(7)
	w.good()
	time.Sleep(readOnlyAfter + look)
	w.is(session.ModeReadOnly)
	return w, g
}

// good lets the leader tell of a good round.
func (w *world) good() {
	w.t.Helper()
	w.leader.beat(session.Heartbeat{Good: w.leader.round + 1, Confirmed: w.leader.round})
	synctest.Wait()
}

func (w *world) is(want session.Mode) {
	w.t.Helper()
	if got := w.server.State(); got.Mode != want || got.Node != 1 || got.Index != w.view.AppliedIndex() {
		w.t.Errorf("state is %+v, want %v of node 1 at %d", got, want, w.view.AppliedIndex())
	}
}

// unasked fails if anything came to the leader.
func (w *world) unasked(what string) {
	w.t.Helper()
	synctest.Wait()
	select {
	case m := <-w.leader.toLeader:
		w.t.Errorf("%s: the leader was asked %+v", what, m.Request)
	default:
	}
}

func TestN1Mode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := readOnlyConfig()
		cfg.Local = false
		w := newWorldOf(t, cfg)
		w.is(session.ModeNoLeader)
		time.Sleep(time.Minute)
		w.is(session.ModeNoLeader) // it has applied nothing
		w.view.apply(7)
		w.is(session.ModeReadOnly) // a state that was restored, and nobody to hear of
		w.follow()
		w.is(session.ModeReadOnly)
		w.good()
		w.is(session.ModeReadWrite)

		time.Sleep(jeopardyIntervals * interval)
		w.is(session.ModeReadWrite)
		time.Sleep(time.Nanosecond)
		w.is(session.ModeNoLeader)
		time.Sleep(readOnlyAfter - jeopardyIntervals*interval - 1)
		w.is(session.ModeNoLeader)
		time.Sleep(time.Nanosecond)
		w.is(session.ModeReadOnly)
		w.good()
		w.is(session.ModeReadWrite)

		w.leader.end()
		synctest.Wait()
		w.is(session.ModeNoLeader)
		w.follow()
		w.is(session.ModeReadWrite) // the newest good round is not old

		time.Sleep(readOnlyAfter + 1)
		w.is(session.ModeReadOnly)
		w.server.Stop()
		w.is(session.ModeNoLeader)
	})
}

func TestN1NeverReadOnly(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"without the setting":    func(c *Config) { c.ReadOnly = false },
		"before its admission":   func(c *Config) { c.Admitted = func() bool { return false } },
		"within three intervals": func(c *Config) { c.ReadOnlyAfter, c.Interval = 0, 30*time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				cfg := readOnlyConfig()
				change(&cfg)
				w := newWorldOf(t, cfg)
				w.view.apply(7)
				time.Sleep(time.Minute)
				w.is(session.ModeNoLeader)
				if _, err := w.server.Find(t.Context(), 1, session.ReadOptions{AllowReadOnly: true}); !errors.Is(err,
					session.ErrNoLeader) {
					t.Errorf("a read: %v, want %v", err, session.ErrNoLeader)
				}
			})
		})
	}
}

// perils returns true for each begin of jeopardy that was told and false for each end.
func (e *events) perils() []bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.jeopardy)
}

// A client that says nothing learns of the node's mode from the second word of jeopardy.
func TestN1IdleClientsHearOfTheMode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := cutOff(t)
		late := &events{}
		defer w.connect(late).Disconnect()
		time.Sleep(look)
		if want := []bool{true, true}; !slices.Equal(w.events.perils(), want) {
			t.Errorf("told %v, want jeopardy twice", w.events.perils())
		}
		if want := []bool{true}; !slices.Equal(late.perils(), want) {
			t.Errorf("who came late was told %v, want jeopardy once", late.perils())
		}
		w.good()
		synctest.Wait()
		if want := []bool{true, true, false}; !slices.Equal(w.events.perils(), want) {
			t.Errorf("told %v, want the end of it", w.events.perils())
		}
		if err := w.server.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
	})
}

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
				_, err := w.conn.Open(ctx, session.OpenRequest{Timeout: timeout})
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
					t.Error("it was kept waiting")
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
		if f := w.server.local.flightOf(own.Session.ID); f != nil {
			t.Error("an upgrade is under way")
		}
	})
}

// Touches count for whoever leads next, and promise what was confirmed before; what is local needs nobody.
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
			t.Errorf("the leader was told %v, want the touch of 1 s ago", a.touches)
		}
	})
}

// What was asked of the leader before the node became read-only keeps its own outcome.
func TestN2UnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorldOf(t, readOnlyConfig())
		w.follow()
		w.claims(firstLocal)
		w.view.apply(7)
		w.good()
		done := make(chan error)
		go func() {
			_, err := w.conn.Open(t.Context(), session.OpenRequest{Timeout: timeout})
			done <- err
		}()
		asked := w.leader.request()
		time.Sleep(readOnlyAfter + look)
		w.is(session.ModeReadOnly)
		s := session.Session{ID: 1, Timeout: timeout, Owner: 1, Attachment: 1}
		w.view.put(s)
		w.leader.reply(session.Reply{Seq: asked.Seq, Term: 1, Session: s})
		if err := <-done; err != nil {
			t.Errorf("an open that was under way: %v", err)
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
			t.Errorf("an ended one: %v, want its certificate", err)
		}
		if _, err = w.server.Find(t.Context(), 3, allow); !errors.Is(err, session.ErrExpired) {
			t.Errorf("one that the state does not have: %v, want %v", err, session.ErrExpired)
		}
		page, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow})
		if err != nil || len(page.Sessions) != 2 || page.Sessions[0].Remaining >= 0 ||
			page.Sessions[1].Session.ID != own.Session.ID || page.Sessions[1].Remaining <= 0 {
			t.Errorf("listed %+v, %v; want 1 without a remaining time, and the local one with its own", page, err)
		}
		w.unasked("reads of the applied state")
		for _, filter := range []session.Filter{{MinRemaining: time.Second}, {MaxRemaining: time.Second}} {
			_, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow, Filter: filter})
			if !errors.Is(err, session.ErrReadOnly) {
				t.Errorf("%+v: %v, want %v, which passes", filter, err, session.ErrReadOnly)
			}
			filter.Scope = session.ScopeLocal
			if _, err := w.server.List(t.Context(), session.Query{Size: 10, Read: allow, Filter: filter}); err != nil {
				t.Errorf("%+v: %v", filter, err)
			}
		}
	})
}

// A read that does not allow it is the leader's (R4), and so is each on a node that is not read-only.
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
				t.Errorf("found %+v, want the leader's word of 1 s", l)
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

func TestStateAllocatesNothing(t *testing.T) {
	w := NewServer(readOnlyConfig(), newFakeView())
	if n := testing.AllocsPerRun(100, func() { w.State() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
