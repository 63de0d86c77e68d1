package leader_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// blocked makes closes wait until release is called with their outcome.
func (w *world) blocked() (release func(err error)) {
	outcome := make(chan error, 1)
	w.log.decides(func(ctx context.Context, c session.Command) (session.Result, error, bool) {
		if _, ok := c.(session.CloseSessions); !ok {
			return session.Result{}, nil, false
		}
		select {
		case err := <-outcome:
			return session.Result{}, err, err != nil
		case <-ctx.Done():
			return session.Result{}, session.ErrOutcomeUnknown, true
		}
	})
	return func(err error) {
		outcome <- err
		w.log.decides(nil)
		synctest.Wait()
	}
}

// E3: popping and marking are one step. While the close is in flight, the session is not proposed again and touches of
// it are not accepted. Commands hold at most 1,024 sessions, each with its attachment, under the tracker's term.
func TestE3Entries(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		const n = 3000
		want := make(map[session.ID]uint64)
		for i := range session.ID(n) {
			s := w.has((i+1)<<20, 1)
			want[s.ID] = s.Attachment
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		w.alive()
		closes, _ := proposed[session.CloseSessions](w.log)
		for _, c := range closes {
			if c.Term != term || c.Cause != session.CauseExpired || len(c.Sessions) > session.MaxCloseBatch {
				t.Errorf("entry of term %d, cause %v, %d sessions", c.Term, c.Cause, len(c.Sessions))
			}
			for _, one := range c.Sessions {
				if want[one.ID] != one.Attachment {
					t.Errorf("%v closed with attachment %d, want %d once", one.ID, one.Attachment, want[one.ID])
				}
				delete(want, one.ID)
			}
		}
		if len(want) != 0 || len(closes) != 3 {
			t.Errorf("%d sessions not closed, %d entries, want 3", len(want), len(closes))
		}
		if got := w.tracker.Stats(); got.Expired != n || got.Sessions != 0 || got.Closing != 0 {
			t.Errorf("stats: %+v", got)
		}
	})
}

// E3: the shards have their turns, so that in a storm no shard waits until all shards before it are empty. The sessions
// of nodes 1 and 2 are in two shards, and more of each are due than one entry ends.
func TestE3EveryShardHasItsTurn(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		const n = 3 * session.MaxCloseBatch
		for i := range session.ID(n) {
			w.has(1<<56|(i+1)<<10, 1)
			w.has(2<<56|(i+1)<<10, 1)
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		w.alive()
		got := map[session.Node]int{}
		for _, batch := range w.found[:4] {
			for _, one := range batch {
				got[one.ID.Node()]++
			}
		}
		if got[1] != 2*session.MaxCloseBatch || got[2] != 2*session.MaxCloseBatch {
			t.Errorf("the first four batches have %v sessions by node, want two batches of each", got)
		}
	})
}

// E3: a shard whose sessions did not fit into a batch begins the next batch. The sessions of node 1 fill the first
// batch exactly, so the next one belongs to node 2, which got nothing of the first, and not to node 3.
func TestE3NoShardLosesItsTurn(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		const n = session.MaxCloseBatch
		for i := range session.ID(n) {
			w.has(1<<56|(i+1)<<10, 1)
		}
		for i := range session.ID(2 * n) {
			w.has(2<<56|(i+1)<<10, 1)
			w.has(3<<56|(i+1)<<10, 1)
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		w.alive()
		var got []session.Node
		for _, batch := range w.found {
			got = append(got, batch[0].ID.Node())
		}
		if want := []session.Node{1, 2, 3, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("batches of the nodes %v, want %v", got, want)
		}
	})
}

// E3: batches reach the log in the order in which they were found, so the sessions of a shard end in the order in which
// they came due, and those of a batch in the order of their ids.
func TestE3BatchesKeepTheirOrder(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		for i := range session.ID(10 * session.MaxCloseBatch) {
			w.has(1<<56|(i+1)<<10, 1)
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		w.alive()
		closes, _ := proposed[session.CloseSessions](w.log)
		if len(closes) != len(w.found) || len(closes) != 10 {
			t.Fatalf("%d commands of %d batches, want 10", len(closes), len(w.found))
		}
		for i, c := range closes {
			if !slices.Equal(c.Sessions, w.found[i]) {
				t.Errorf("command %d begins with %v, batch %d with %v", i, c.Sessions[0].ID, i, w.found[i][0].ID)
			}
			if !slices.IsSortedFunc(c.Sessions, func(a, b session.Closing) int { return cmp.Compare(a.ID, b.ID) }) {
				t.Errorf("command %d is not in the order of the ids", i)
			}
		}
	})
}

func TestE3MarkedAtOnce(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		release := w.blocked()
		m := w.join(3, prompt)
		defer w.run()()
		w.at(4250 * ms)
		if got := w.tracker.Stats().Closing; got != 1 {
			w.t.Fatalf("%d closing, want 1", got)
		}
		m.replies(touching(m.last().Round+1, session.Touch{ID: 5}))
		w.at(10 * time.Second)
		if got := w.tracker.Stats(); got.TouchesAccepted != 0 || got.TouchesRejected != 1 {
			t.Errorf("taken %d, not taken %d, want 0, 1", got.TouchesAccepted, got.TouchesRejected)
		}
		release(nil)
		w.alive()
		if closes, _ := proposed[session.CloseSessions](w.log); len(closes) != 1 {
			t.Errorf("%d entries, want 1", len(closes))
		}
	})
}

// E3: sessions that come due one after the other, while the log is slow with the first, are decided when they are due.
// The next entry then has them all (I2 never late).
func TestE3DecidedWhileTheLogIsSlow(t *testing.T) {
	trio(t, func(w *world) {
		const n = 20
		for i := range session.ID(n) {
			s := w.has(i+1, 3)
			s.Timeout += time.Duration(i) * 300 * ms // an interval of its own for each
			w.view.sessions[s.ID] = s
		}
		release := w.blocked()
		w.join(3, prompt)
		defer w.run()()
		w.at(4250*ms + n*300*ms)
		decided := w.tracker.Stats().Closing
		if decided != n {
			t.Errorf("%d sessions are decided while the first one's entry is written, want %d", decided, n)
		}
		for range decided {
			release(nil)
		}
	})
}

// E4: a refused close gives the mark back, with the deadline as touches have moved it meanwhile. The session is not
// proposed again before the next interval.
func TestE4Refused(t *testing.T) {
	for name, err := range map[string]error{
		"leadership transfer": session.ErrNotLeader,
		"full queue":          &session.LimitError{Name: "queue"},
		"stopping":            session.ErrStopping,
	} {
		t.Run(name, func(t *testing.T) {
			trio(t, func(w *world) {
				w.has(5, 3)
				w.has(6, 3)
				release := w.blocked()
				m := w.join(3, prompt)
				defer w.run()()
				w.at(4250 * ms)
				m.replies(touching(m.last().Round+1, session.Touch{ID: 5}))
				w.at(4800 * ms) // touched at 4.5 s: due at 8.52 s
				release(err)
				if got := w.tracker.Stats(); got.Closing != 0 || got.Returned != 2 {
					t.Errorf("%d closing, %d returned, want 0, 2", got.Closing, got.Returned)
				}
				w.alive(5, 6)
				w.expires(5*time.Second, 6)
				w.expires(8750*ms, 5)
			})
		})
	}
}

// E3: in a storm few commands are in flight at a time. After each decided command the next one is sent at once.
func TestE3AStormGoesOnWithEachDecision(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		const commands, underWay = 20, 8
		for i := range session.ID(commands * session.MaxCloseBatch) {
			w.has((i+1)<<20, 1)
		}
		decide := make(chan struct{})
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.CloseSessions); ok {
				<-decide
			}
			return session.Result{}, nil, false
		})
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		for decided := range commands {
			closes, _ := proposed[session.CloseSessions](w.log)
			if want := min(decided+underWay, commands); len(closes) != want {
				w.t.Fatalf("%d commands were proposed after %d decisions, want %d", len(closes), decided, want)
			}
			decide <- struct{}{}
			synctest.Wait()
		}
		w.alive()
		if got := w.tracker.Stats(); got.Expired != commands*session.MaxCloseBatch || w.now() != 4250*ms {
			t.Errorf("%d expired at %v", got.Expired, w.now())
		}
	})
}

// E4: a mark is removed when the state machine left the session alone.
func TestE4LeftAlone(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		first := true
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.CloseSessions); ok && first {
				first = false
				return session.Result{Term: term, Closed: []bool{false}}, nil, true
			}
			return session.Result{}, nil, false
		})
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		if got := w.tracker.Stats(); got.Closing != 0 || got.Returned != 1 {
			t.Errorf("%d closing, %d returned, want 0, 1", got.Closing, got.Returned)
		}
		w.expires(4500*ms, 5)
	})
}

// E4: while the outcome is unknown the mark stays, for hours if need be, until the log decides.
func TestE4Unknown(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		s := w.has(5, 1)
		moved := w.has(6, 1)
		release := w.blocked()
		m := w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		release(session.ErrOutcomeUnknown)
		w.at(time.Hour)
		if got := w.tracker.Stats(); got.Closing != 2 || got.Returned != 0 || got.Unknown != 2 {
			w.t.Fatalf("%d closing, %d returned, %d unknown, want 2, 0, 2", got.Closing, got.Returned, got.Unknown)
		}
		m.asks(session.Request{Seq: 1, Resume: &session.ResumeRequest{Token: token(s)}})
		if got := m.replied(1); got == nil || !errors.Is(got.Err, session.ErrClosing) {
			t.Errorf("resume: %+v, want ErrClosing", got)
		}
		w.log.apply(session.MoveSession{ID: 6, NewOwner: 1}, term) // proposed before the mark
		closes, _ := proposed[session.CloseSessions](w.log)
		w.log.apply(closes[0], term)
		w.alive(6)
		if got := w.tracker.Stats(); got.Closing != 0 || got.Sessions != 1 {
			t.Errorf("%d closing, %d sessions after the log decided, want 0, 1", got.Closing, got.Sessions)
		}
		if now, _ := w.view.Session(6); now.Attachment == moved.Attachment {
			t.Error("the session was not moved")
		}
	})
}

// E4: the refusal of a close under a former attachment does not remove the mark of a later close.
func TestE4FormerAttachment(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		first, second := make(chan struct{}), make(chan struct{})
		calls := []chan struct{}{first, second}
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.CloseSessions); !ok || len(calls) == 0 {
				return session.Result{}, nil, false
			}
			call := calls[0]
			calls = calls[1:]
			<-call
			return session.Result{}, session.ErrNotLeader, true
		})
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		w.log.apply(session.MoveSession{ID: 5, NewOwner: 1}, term)
		w.at(8500 * ms)
		if got := w.tracker.Stats().Closing; got != 1 {
			w.t.Fatalf("%d closing, want 1 under the new attachment", got)
		}
		close(first)
		synctest.Wait()
		if got := w.tracker.Stats().Closing; got != 1 {
			t.Errorf("%d closing after the former close was refused, want 1", got)
		}
		close(second)
	})
}

// E5: until the log has decided, a client gets CLOSING, and then the end of its session.
func TestE5OnlyTheLogSays(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		s := w.has(5, 1)
		release := w.blocked()
		m := w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		tok := token(s)
		m.asks(session.Request{Seq: 1, Resume: &session.ResumeRequest{Token: tok}})
		m.asks(session.Request{Seq: 2, Close: &tok})
		for seq := range uint64(2) {
			if r := m.replied(seq + 1); r == nil || !errors.Is(r.Err, session.ErrClosing) {
				t.Errorf("reply %d before the log decided: %+v, want ErrClosing", seq+1, r)
			}
		}
		release(nil)
		m.asks(session.Request{Seq: 3, Resume: &session.ResumeRequest{Token: tok}})
		m.asks(session.Request{Seq: 4, Close: &tok})
		for seq := range uint64(2) {
			if r := m.replied(seq + 3); r == nil || !errors.Is(r.Err, session.ErrExpired) {
				t.Errorf("reply %d after the log decided: %+v, want ErrExpired", seq+3, r)
			}
		}
	})
}

// M5, E5: the state shows an entry before its observers are notified. A session that is shown and not filed yet has not
// ended: it can be read, and can be closed as soon as it is filed.
func TestM5ShownAndNotFiledIsNotExpired(t *testing.T) {
	solo(t, func(w *world, m *member) {
		w.at(30 * time.Second)
		s := w.has(5, 2)
		tok := token(s)
		if r := m.ask(session.Request{Close: &tok}); !errors.Is(r.Err, session.ErrLagging) {
			t.Errorf("closed before it is filed: %v, want ErrLagging", r.Err)
		}
		read := m.ask(session.Request{Read: &session.ReadRequest{Remaining: []session.ID{s.ID}}})
		if len(read.Remaining) != 1 || read.Remaining[0] != s.Timeout {
			t.Errorf("read before it is filed: remaining %v of %v, error %v", read.Remaining, s.Timeout, read.Err)
		}
		w.alive(5)
		w.tracker.Applied(w.log.newest(), term, []session.Change{{Kind: session.Opened, Session: s}})
		if r := m.ask(session.Request{Close: &tok}); r.Err != nil {
			t.Errorf("closed once it is filed: %v", r.Err)
		}
		w.alive()
	})
}
