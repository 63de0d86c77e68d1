package learner

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"weak"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

func TestConnectionsForgetWhatHasEnded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		w.open(2, 2)
		w.move(2, 9)
		if got := w.conn.sessions.size(); got != 1 {
			t.Errorf("the connection holds %d sessions, want 1", got)
		}
	})
}

// Of two resumes through one connection the older may be noted last. A touch of all touches the newer attachment.
func TestOfTwoResumesTheNewerIsTouched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		s := w.open(1, 1).Session
		moved := func(attachment uint64) {
			s.Attachment = attachment
			w.view.put(s)
			w.server.Applied(attachment, 1, []session.Change{{Stamp: tree.StampAt(attachment, 1), Kind: session.Moved, Session: s}})
		}
		moved(2)
		older, err := w.server.attach(s, w.conn, mark{}, w.server.clock.checkedNow())
		if err != nil {
			t.Fatal(err)
		}
		moved(3)
		if _, err := w.conn.serve(session.Reply{Session: s}, w.server.clock.checkedNow()); err != nil {
			t.Fatal(err)
		}
		w.conn.add(older)
		if got := w.conn.Touch(nil); len(got.Failures) > 0 {
			t.Errorf("touch of all: failures %+v, want none: the session is served here", got.Failures)
		}
	})
}

func TestT2RefusesOtherAttachments(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 3)
		l.beat(session.Heartbeat{Attachment: 3})
		for _, test := range []struct {
			attachment uint64
			want       error
		}{{2, session.ErrMoved}, {4, session.ErrLagging}} {
			if _, err := w.conn.TouchToken(t.Context(), w.token(1, test.attachment)); !errors.Is(err, test.want) {
				t.Errorf("touch with attachment %d of 3: %v, want %v", test.attachment, err, test.want)
			}
		}
		w.move(1, 9)
		if got := w.conn.Touch([]session.ID{1}); len(got.Failures) != 1 ||
			!errors.Is(got.Failures[0].Err, session.ErrMoved) {
			t.Errorf("touch after a move: %+v, want the failure ErrMoved", got)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 0 {
			t.Errorf("refused touches were reported: %v", got)
		}
	})
}

func TestT2AnEndedSessionFailsOnceInATouchOfAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		w.open(1, 1)
		w.open(2, 2)
		w.server.table.end(1, 9, session.ErrMoved) // a move of which the client has not been told yet
		got := w.conn.Touch(nil)
		if len(got.Failures) != 1 || got.Failures[0].ID != 1 || !errors.Is(got.Failures[0].Err, session.ErrMoved) ||
			got.SafeFor < 0 {
			t.Errorf("touch of all: %+v, want a promise, and the failure of session 1", got)
		}
		if got := w.conn.Touch(nil); len(got.Failures) != 0 {
			t.Errorf("touch of all again: %+v, want no failure", got)
		}
	})
}

func TestT2NeedsTheCredential(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		forged := w.token(1, 1)
		forged.Credential[0] ^= 1
		if _, err := w.conn.TouchToken(t.Context(), forged); !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("touch with a forged credential: %v, want ErrBadCredential", err)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 0 {
			t.Errorf("a forged touch was reported: %v", got)
		}
	})
}

// The table refers to a connection as long as its sessions live. What listened to the connection is not kept for so
// long: with it go the stream's buffers.
func TestAnEndedConnectionKeepsNoListener(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow()
		listener := &events{}
		kept := weak.Make(listener)
		w.conn = w.connect(listener).(*connection) //nolint:forcetypeassert // a connection
		w.open(1, 1)
		w.conn.Disconnect()
		runtime.GC()
		runtime.GC()
		if kept.Value() != nil {
			t.Error("the listener is kept")
		}
		if a := w.server.table.find(1); a == nil || a.conn != w.conn {
			t.Error("the session is not served through the connection any more, so that nothing was tested")
		}
	})
}

// An ended connection is in the table as long as one of its sessions lives. It keeps no local sessions that have ended,
// moved or become global since.
func TestAnEndedConnectionKeepsNoLocalSessions(t *testing.T) {
	for name, play := range map[string]func(w *world, c *connection, granted session.Grant){
		"expired": func(*world, *connection, session.Grant) { time.Sleep(3 * timeout) },
		"moved": func(w *world, _ *connection, granted session.Grant) {
			other := w.connect(&events{})
			r := session.ResumeRequest{Token: granted.Token, Instance: 5, Attempt: 1}
			if _, err := other.Resume(w.t.Context(), r); err != nil {
				w.t.Fatal(err)
			}
		},
		"upgraded": func(w *world, c *connection, granted session.Grant) {
			done := w.upgrade(c, granted.Token)
			seq, r := w.asked()
			w.leader.reply(session.Reply{Seq: seq, Session: w.global(r, 9), Index: w.view.AppliedIndex()})
			<-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := stocked(t)
				w.open(1, 1)
				granted, c := w.openLocal(w.conn, 50), w.conn
				c.Disconnect()
				play(w, c, granted)
				w.settle()
				c.mu.Lock()
				defer c.mu.Unlock()
				if len(c.locals)+c.sessions.size() > 0 {
					t.Errorf("it keeps %d local and %d global sessions", len(c.locals), c.sessions.size())
				}
			})
		})
	}
}
