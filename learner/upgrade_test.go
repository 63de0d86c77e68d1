package learner

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

func TestL7AnUpgradeKeepsIDAndTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		w.view.apply(7)
		labels := session.Labels{{Key: "k", Value: "v"}}
		was, err := w.conn.Open(t.Context(),
			session.OpenRequest{
				Local: true, Spec: session.Spec{Timeout: timeout, Labels: labels},
				RequestID: session.RequestID{1}, MS: 7,
			})
		if err != nil {
			t.Fatal(err)
		}
		if was, err = w.conn.Resume(t.Context(),
			session.ResumeRequest{Token: was.Token, Instance: 8, Attempt: 4}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		done := w.upgrade(w.conn, was.Token)
		seq, r := w.asked()
		if want := (&session.UpgradeRequest{
			ID: firstLocal, Spec: session.Spec{Timeout: timeout, Labels: labels}, MS: 7, Instance: 8,
			Attempt: 4, Since: 7,
		}); !reflect.DeepEqual(r, want) {
			t.Errorf("asked for %+v, want %+v", r, want)
		}
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 8})
		got := <-done
		if got.err != nil || got.Session.ID != firstLocal || got.Session.Timeout != timeout || got.Session.Local ||
			got.SafeFor != promised(0) {
			t.Errorf("upgraded to %+v, %v", got.Grant, got.err)
		}
		if want := (session.Token{
			ID: firstLocal, Credential: was.Token.Credential, Attachment: 40,
		}); got.Token != want {
			t.Errorf("token %+v, want %+v", got.Token, want)
		}
		if n := w.server.Stats(); n.Local != 0 || n.Attached != 1 || n.LocalUpgraded != 1 {
			t.Errorf("%d local and %d global sessions, %d upgraded; want 0, 1 and 1", n.Local, n.Attached,
				n.LocalUpgraded)
		}
		if again, err := w.conn.Upgrade(t.Context(), got.Token); err != nil || again.Token != got.Token {
			t.Errorf("upgrade of a global session: %+v, %v", again, err)
		}
	})
}

func TestL7RefusedWhenOff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := localConfig()
		cfg.Upgrade = false
		w := newWorldOf(t, cfg)
		w.follow()
		w.claims(firstLocal)
		g := w.openLocal(w.conn, 1)
		_, err := w.conn.Upgrade(t.Context(), g.Token)
		if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "token" {
			t.Errorf("upgrade: %v, want a FieldError of token", err)
		}
		w.promises("afterwards", promised(0))
	})
}

// L8: when many requests ask for an upgrade at once, through several connections, the log is asked once.
func TestL8OneFlightForAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		var all []<-chan granted
		for range 100 {
			all = append(all, w.upgrade(w.connect(nil), was.Token))
		}
		seq, r := w.asked()
		synctest.Wait()
		if n := len(w.leader.toLeader); n > 0 {
			t.Errorf("asked %d times more", n)
		}
		s := w.global(r, 40)
		w.leader.reply(session.Reply{Seq: seq, Session: s, Index: 1})
		for _, done := range all {
			if got := <-done; got.err != nil || got.Token.Attachment != 40 || got.Token.Local {
				t.Fatalf("one of the requests got %+v, %v", got.Token, got.err)
			}
		}
		if n := len(w.leader.toLeader); n > 0 || w.server.table.Len() != 1 || w.server.Stats().Local != 0 {
			t.Errorf("asked %d times more; %d global, %d local sessions", n, w.server.table.Len(),
				w.server.Stats().Local)
		}
		// The connection that served the local session serves the global one.
		if got := w.conn.Touch(nil); len(got.Failures) > 0 || got.SafeFor != promised(0) {
			t.Errorf("touch on its connection: %+v", got)
		}
	})
}

// L8: the node repeats the same command to learn an unknown outcome. Meanwhile the session does not expire, and gets no
// promise beyond the time for which the log would keep it.
func TestL8ALostAnswer(t *testing.T) {
	for name, committed := range map[string]bool{"the entry committed": true, "the entry was lost": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := stocked(t)
				was := w.openLocal(w.conn, 1)
				done := w.upgrade(w.conn, was.Token)
				_, first := w.asked()
				first = new(*first)
				w.leader.end() // after the request, before its answer
				time.Sleep(3 * time.Second)
				w.promises("3 s after the upgrade began", promised(3*time.Second))
				time.Sleep(5 * timeout)
				if got := w.conn.Touch(nil); got.SafeFor >= 0 || len(got.Failures) > 0 || w.server.Stats().Local != 1 {
					t.Errorf("touch while the outcome is unknown: %+v, want no promise and no end", got)
				}
				if committed {
					w.global(first, 40)
				}
				w.follow()
				seq, again := w.asked()
				if !reflect.DeepEqual(again, first) {
					t.Errorf("asked for %+v, want the same again: %+v", again, first)
				}
				if !committed {
					w.global(again, 40)
				}
				s, _ := w.view.Session(was.Session.ID)
				w.leader.reply(session.Reply{Seq: seq, Session: s, Index: w.view.AppliedIndex(), Repeated: committed})
				if got := <-done; got.err != nil || got.Token.Attachment != 40 {
					t.Errorf("upgraded to %+v, %v", got.Token, got.err)
				}
				synctest.Wait()
				if len(w.leader.toLeader) > 0 || w.server.Stats().Local != 0 || w.server.table.Len() != 1 ||
					w.events.ends()+len(w.events.moved) > 0 {
					t.Errorf("left with %+v, told %v and %v", w.server.Stats(), w.events.gone, w.events.moved)
				}
			})
		})
	}
}

// L8: after a leader has refused an upgrade the session is local as before.
func TestL8ARefusedUpgradeChangesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		time.Sleep(time.Second)
		done := w.upgrade(w.conn, was.Token)
		seq, _ := w.asked()
		time.Sleep(timeout / 2)
		w.conn.Touch(nil)
		w.leader.reply(session.Reply{Seq: seq, Err: session.ErrNotLeader})
		if got := <-done; !errors.Is(got.err, session.ErrNotLeader) {
			t.Errorf("upgrade: %v, want %v", got.err, session.ErrNotLeader)
		}
		time.Sleep(timeout - 1)
		if w.events.ends() > 0 {
			t.Error("expired before a timeout after its newest touch (I1)")
		}
		time.Sleep(width + look + 1)
		if synctest.Wait(); w.events.ends() != 1 {
			t.Error("did not expire (I2)")
		}
		// The same holds when no leader was asked.
		w.leader.end()
		synctest.Wait()
		was = w.openLocal(w.conn, 2)
		if _, err := w.conn.Upgrade(t.Context(), was.Token); !errors.Is(err, session.ErrNoLeader) {
			t.Errorf("upgrade without a leader: %v, want %v", err, session.ErrNoLeader)
		}
		w.promises("afterwards", promised(0))
	})
}

// L8: the node reports the touches during the upgrade once it shows the attachment, and not before: the leader would
// ignore them (T5 a touch moves the deadline).
func TestL8TouchesGoOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		w.leader.beat(session.Heartbeat{})
		w.upgrade(w.conn, was.Token)
		_, r := w.asked()
		time.Sleep(2 * time.Second)
		w.conn.Touch(nil)
		time.Sleep(time.Second)
		// The entry is applied, but the node does not show it yet.
		s := session.Session{ID: r.ID, Spec: session.Spec{Timeout: r.Timeout}, Owner: 1, Attachment: 40}
		w.view.hold(s)
		w.server.Applied(1, 1, []session.Change{{Stamp: tree.StampAt(1, 1), Kind: session.Opened, Session: s}})
		if got := w.leader.beat(session.Heartbeat{}); len(got.touches) != 0 || got.Attachment >= 40 {
			t.Errorf("with h = %d reported %v, want nothing", got.Attachment, got.touches)
		}
		w.view.put(s)
		if got := w.leader.beat(session.Heartbeat{}).touches; len(got) != 1 || got[s.ID] != time.Second {
			t.Errorf("reported %v, want %v with the age of its newest touch, a second", got, s.ID)
		}
		if got := w.conn.Touch(nil); got.SafeFor != promised(3*time.Second) || len(got.Failures) > 0 {
			t.Errorf("promise before any confirmation: %+v, want %v, from the beginning of the upgrade (S2)", got,
				promised(3*time.Second))
		}
	})
}

// L8: a node that stops does not wait for an outcome that it can no longer ask for.
func TestL8StoppingLeavesAnUnknownOutcome(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		was := w.openLocal(w.conn, 1)
		done := w.upgrade(w.conn, was.Token)
		_, _ = w.asked()
		w.leader.end()
		synctest.Wait()
		w.server.Stop()
		time.Sleep(interval)
		synctest.Wait()
		select {
		case got := <-done:
			if !errors.Is(got.err, session.ErrOutcomeUnknown) {
				t.Errorf("upgrade: %v, want %v", got.err, session.ErrOutcomeUnknown)
			}
		default:
			t.Error("an upgrade keeps the node from stopping")
		}
		if got := w.conn.Touch(nil); len(got.Failures) > 0 || w.server.Stats().Local != 1 {
			t.Errorf("touch afterwards: %+v, want the session unchanged", got)
		}
	})
}
