package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// trio runs a leader of three voters with prompt relays on 1 and 2; node 3 is the test's.
func trio(t *testing.T, test func(w *world)) {
	t.Helper()
	bubble(t, voters(1, 2, 3), func(w *world) {
		w.join(1, prompt)
		w.join(2, prompt)
		test(w)
	})
}

// late is trio with relays that take 1 ms to answer, so that every heartbeat of a round is sent before it is good.
func late(t *testing.T, test func(w *world)) {
	t.Helper()
	bubble(t, voters(1, 2, 3), func(w *world) {
		for _, n := range []session.Node{1, 2} {
			w.follow(&member{w: w, hello: session.Hello{Node: n, Stream: 1}, reply: prompt, delay: ms})
		}
		test(w)
	})
}

// until answers heartbeats before d, and none from then on.
func (w *world) until(d time.Duration) func(*session.Heartbeat) *session.Answer {
	return func(b *session.Heartbeat) *session.Answer {
		if w.now() >= d {
			return nil
		}
		return answer(b.Round)
	}
}

// touching answers every heartbeat, the one to round with a touch.
func touching(round uint64, touches ...session.Touch) func(*session.Heartbeat) *session.Answer {
	return func(b *session.Heartbeat) *session.Answer {
		if b.Round == round {
			return answer(round, touches...)
		}
		return answer(b.Round)
	}
}

// A1, I8: a leader without a quorum ages nobody; when it is back the clock goes on from where it stood, and the
// certificate says what was credited.
func TestA1NoQuorum(t *testing.T) {
	bubble(t, voters(1, 2, 3), func(w *world) {
		w.has(5, 1)
		w.join(1, prompt)
		other := w.join(2, prompt)
		defer w.run()()
		w.at(3 * time.Second)
		other.cut()
		// The last good round was found at 3 s: the clock stands at 4 s.
		w.at(time.Hour)
		if got := w.tracker.Stats(); got.Elapsed != 4*time.Second || got.Credited != time.Hour-4*time.Second || got.Stands != 0 {
			t.Errorf("elapsed %v, credited %v, stands %d", got.Elapsed, got.Credited, got.Stands)
		}
		w.alive(5)
		w.join(2, prompt)
		if got := w.tracker.Stats(); got.Stands != 1 {
			t.Errorf("stands %d, want 1", got.Stands)
		}
		w.expires(time.Hour+width, 5)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got, want := closes[0].Credited, time.Hour-4*time.Second; got != want {
			t.Errorf("credited %v, want %v", got, want)
		}
	})
}

// A1, I8: a leader that was paused ages nobody by more than two intervals.
func TestA1Paused(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		w.join(1, prompt)
		w.at(time.Hour)
		defer w.run()()
		w.expires(time.Hour+long-2*beat+width, 5)
	})
}

// A2: deadlines only move forward: an older touch changes nothing.
func TestA2Forward(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		w.join(1, func(b *session.Heartbeat) *session.Answer {
			switch b.Round {
			case 3:
				return answer(3, session.Touch{ID: 5})
			case 4:
				return answer(4, session.Touch{ID: 5, Age: 10 * time.Second})
			}
			return answer(b.Round)
		})
		defer w.run()()
		// Touched at 1 s: due at 5.02 s, polled at 5.25 s.
		w.expires(5250*ms, 5)
	})
}

// T3: the touches of an answer count as they arrive, also if its last chunk never does.
func TestT3ChunksTouch(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, w.until(2*time.Second))
		defer w.run()()
		w.at(2 * time.Second)
		part := answer(5, session.Touch{ID: 5, Age: 100 * ms})
		part.Last = false
		m.says(part)
		m.cut()
		// Lost, with the heartbeat of 2 s unanswered: due at 6 s without the touch of 1.9 s, no later with it.
		w.expires(6250*ms, 5)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got, want := closes[0].Sessions[0].LastTouchAge, 6250*ms-1900*ms; got != want {
			t.Errorf("last touch %v ago, want %v", got, want)
		}
	})
}

// T5: a touch counts if the session exists, is owned by who answers, under an attachment that the answer's node had
// applied. Then the deadline is the arrival, less the age, plus timeout and timeout/200.
func TestT5Touches(t *testing.T) {
	for _, c := range []struct {
		name       string
		from       session.Node
		attachment uint64
		id         session.ID
		want       time.Duration
		taken      uint64
	}{
		{"owner's", 3, 1, 5, 5 * time.Second, 1}, // 1 s - 0.2 s + 4.02 s, and up
		{"of another node's session", 2, 1, 5, 4250 * ms, 0},
		{"attachment not applied there", 3, 0, 5, 4250 * ms, 0},
		{"unknown session", 3, 1, 7, 4250 * ms, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, voters(1, 2, 3), func(w *world) {
				w.has(5, 3)
				w.join(1, prompt)
				for _, n := range []session.Node{2, 3} {
					w.join(n, func(b *session.Heartbeat) *session.Answer {
						a := answer(b.Round)
						if n == c.from && b.Round == 3 {
							a = answer(3, session.Touch{ID: c.id, Age: 200 * ms})
							a.Attachment = c.attachment
						}
						return a
					})
				}
				defer w.run()()
				w.at(time.Second)
				if got := w.tracker.Stats(); got.Taken != c.taken || got.NotTaken != 1-c.taken {
					t.Errorf("taken %d, not taken %d, want %d, %d", got.Taken, got.NotTaken, c.taken, 1-c.taken)
				}
				w.expires(c.want, 5)
			})
		})
	}
}

// E1: who was never touched has a full timeout from the term's start.
func TestE1TermStart(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, prompt)
		defer w.run()()
		w.expires(4250*ms, 5)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got := closes[0].Sessions[0].LastTouchAge; got >= 0 {
			t.Errorf("last touch %v ago, want unknown", got)
		}
	})
}

// E1: an owner that cannot vouch for the time before 3 s gives its sessions a full timeout from then.
func TestE1Vouch(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			if w.now() >= 3*time.Second {
				a.VouchAge = w.now() - 3*time.Second
			}
			return a
		})
		defer w.run()()
		w.expires(7250*ms, 5)
	})
}

// E1: with the heartbeat of 2.5 s unanswered for three intervals the owner is lost, and its sessions have a full timeout
// from that heartbeat.
func TestE1LostUnanswered(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, w.until(2500*ms))
		defer w.run()()
		w.at(4*time.Second - 1)
		if got := w.tracker.Stats().Lost; got != 0 {
			t.Errorf("%d lost 1 ns before three intervals", got)
		}
		w.at(4 * time.Second)
		if got := w.tracker.Stats().Lost; got != 1 {
			t.Errorf("%d lost after three intervals, want 1", got)
		}
		w.expires(6750*ms, 5)
	})
}

// E1: with no heartbeat out, it is a full timeout from when the end of the stream was noticed.
func TestE1LostStream(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, prompt)
		defer w.run()()
		w.at(2200 * ms)
		m.cut()
		w.expires(6250*ms, 5)
	})
}

// E1: with a heartbeat out when the stream ends, it is a full timeout from that heartbeat.
func TestE1LostStreamUnanswered(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, w.until(2*time.Second))
		defer w.run()()
		w.at(2600 * ms)
		m.cut()
		w.expires(6250*ms, 5)
	})
}

// E1: of streams that end without a complete answer the first end counts: an owner that opens them for ever holds nothing.
func TestE1FirstEnd(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, prompt)
		defer w.run()()
		w.at(2200 * ms)
		m.cut()
		for _, d := range []time.Duration{3100 * ms, 4100 * ms, 5100 * ms} {
			w.at(d)
			m = w.join(3, nil)
			w.at(d + 300*ms)
			m.cut()
		}
		w.expires(6250*ms, 5)
	})
}

// E1: an answer ends the silence; the next one is counted from its own begin.
func TestE1SilenceEnds(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, prompt)
		defer w.run()()
		w.at(1200 * ms)
		m.cut()
		w.at(1300 * ms)
		m = w.join(3, prompt)
		w.at(3200 * ms)
		m.cut()
		w.expires(7250*ms, 5)
	})
}

// E1, M6: owners that were never heard of in this term, members or not, hold nothing beyond a timeout from its start.
func TestE1NeverSeen(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.has(6, 9)
		defer w.run()()
		w.expires(4250*ms, 5, 6)
	})
}

// M6: a removed member's sessions follow the rule for lost owners.
func TestM6RemovedMember(t *testing.T) {
	bubble(t, voters(1, 2, 3), func(w *world) {
		w.has(5, 3)
		w.join(1, prompt)
		w.join(2, prompt)
		w.join(3, prompt)
		defer w.run()()
		w.at(2200 * ms)
		w.view.mu.Lock()
		w.view.members = voters(1, 2)
		w.view.mu.Unlock()
		// Noticed at 2.5 s, when the next round begins.
		w.expires(6750*ms, 5)
	})
}

// E2: a due session waits for its owner's word, and a touch in it counts.
func TestE2OwnersWord(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, func(b *session.Heartbeat) *session.Answer {
			switch {
			case b.Round == 1:
				return answer(1, session.Touch{ID: 5})
			case w.now() >= 4250*ms && w.now() < 6*time.Second:
				return nil
			}
			return answer(b.Round)
		})
		defer w.run()()
		w.at(5 * time.Second)
		w.alive(5)
		m.says(answer(m.last().Round, session.Touch{ID: 5, Age: 100 * ms}))
		// Touched at 4.9 s.
		w.at(6 * time.Second)
		m.says(answer(m.last().Round))
		w.expires(9*time.Second, 5)
	})
}

// E2: the word of an owner that says nothing ends its session, the moment it arrives.
func TestE2SilentWord(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, w.until(4250*ms))
		w.log.answer = nil
		w.view.mu.Lock()
		s := w.view.sessions[5]
		s.Timeout += 100 * ms // due at 4.1 s, after the begin of the round of 4 s
		w.view.sessions[5] = s
		w.view.mu.Unlock()
		defer w.run()()
		w.at(4700 * ms)
		w.alive(5)
		if got := m.last().Round; got != 10 {
			t.Fatalf("newest round %d, want 10, which began at 4.25 s", got)
		}
		m.says(answer(10))
		w.alive()
		if w.now() != 4700*ms {
			t.Errorf("it took until %v", w.now())
		}
	})
}

// E2: a due session needs a good round that began at or after its due time; a lost owner does not change that.
func TestE2NoGoodRound(t *testing.T) {
	bubble(t, voters(1, 2, 3), func(w *world) {
		w.has(5, 3)
		w.view.mu.Lock()
		s := w.view.sessions[5]
		s.Timeout += 1
		s.Timeout = long + ms
		w.view.sessions[5] = s
		w.view.mu.Unlock()
		w.join(1, prompt)
		other := w.join(2, w.until(4001*ms))
		defer w.run()()
		// The last good round began at 4 s, 1 ms before the due time.
		w.at(10 * time.Second)
		w.alive(5)
		other.says(answer(other.last().Round))
		w.alive()
	})
}

// E2, I2: one round is started at once when sessions come due, one for all, and none when they turn out not to be due.
func TestE2OneRoundForAll(t *testing.T) {
	trio(t, func(w *world) {
		for id := session.ID(1); id <= 100; id++ {
			w.has(id*1<<26, 3)
		}
		touches := make([]session.Touch, 0, 50)
		for id := session.ID(1); id <= 50; id++ {
			touches = append(touches, session.Touch{ID: id * 1 << 26})
		}
		w.join(3, touching(4, touches...)) // at 1.5 s: due at 5.52 s
		defer w.run()()
		w.at(4100 * ms)
		before := w.tracker.Stats().Rounds
		w.at(4250 * ms)
		if got := w.left(); got != 50 {
			t.Errorf("%d sessions at 4.25 s, want 50", got)
		}
		if got := w.tracker.Stats().Rounds - before; got > 1 {
			t.Errorf("%d rounds for 50 sessions that came due together, want at most one", got)
		}
		w.at(5750 * ms)
		if got := w.left(); got != 0 {
			t.Errorf("%d sessions at 5.75 s, want none", got)
		}
	})
}

// I2: due between two regular rounds, with a heartbeat interval of an hour.
func TestE2RoundAtOnce(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, touching(1, session.Touch{ID: 5}))
		defer w.run()()
		w.at(4249 * ms)
		before := w.tracker.Stats().Rounds
		w.expires(4250*ms, 5) // due at 4.02 s, after the regular round of 4 s
		if got := w.tracker.Stats().Rounds - before; got != 1 {
			t.Errorf("%d rounds, want 1 that nobody waited for", got)
		}
	})
}

// blocked makes closes wait until release is called with what is to become of them.
func (w *world) blocked() (release func(err error)) {
	outcome := make(chan error)
	w.log.answer = func(_ context.Context, c session.Command) (session.Result, error, bool) {
		if _, ok := c.(session.CloseSessions); !ok {
			return session.Result{}, nil, false
		}
		err := <-outcome
		return session.Result{}, err, err != nil
	}
	return func(err error) {
		outcome <- err
		w.log.mu.Lock()
		w.log.answer = nil
		w.log.mu.Unlock()
		synctest.Wait()
	}
}

// E3: popped and marked is one step: while the close is under way the session is not proposed again and touches of it are
// not taken; entries hold at most 1,024 sessions, each with its attachment, under the tracker's term.
func TestE3Entries(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
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

func TestE3MarkedAtOnce(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		release := w.blocked()
		m := w.join(3, prompt)
		defer w.run()()
		w.at(4250 * ms)
		if got := w.tracker.Stats().Closing; got != 1 {
			t.Fatalf("%d closing, want 1", got)
		}
		m.reply = touching(m.last().Round+1, session.Touch{ID: 5})
		w.at(10 * time.Second)
		if got := w.tracker.Stats(); got.Taken != 0 || got.NotTaken != 1 {
			t.Errorf("taken %d, not taken %d, want 0, 1", got.Taken, got.NotTaken)
		}
		release(nil)
		w.alive()
		if closes, _ := proposed[session.CloseSessions](w.log); len(closes) != 1 {
			t.Errorf("%d entries, want 1", len(closes))
		}
	})
}

// E4: a close that certainly will not take effect gives the mark back, with the deadline that touches made of it
// meanwhile; the session is not proposed again before the next interval.
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
				m.reply = touching(m.last().Round+1, session.Touch{ID: 5})
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

// E4: a mark is taken back when the state machine left the session alone.
func TestE4LeftAlone(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		first := true
		w.log.answer = func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.CloseSessions); ok && first {
				first = false
				return session.Result{Term: term, Closed: []bool{false}}, nil, true
			}
			return session.Result{}, nil, false
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		if got := w.tracker.Stats(); got.Closing != 0 || got.Returned != 1 {
			t.Errorf("%d closing, %d returned, want 0, 1", got.Closing, got.Returned)
		}
		w.expires(4500*ms, 5)
	})
}

// E4: while the outcome is unknown the mark stays; the log decides, hours later if need be.
func TestE4Unknown(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
		s := w.has(5, 1)
		moved := w.has(6, 1)
		release := w.blocked()
		m := w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		release(session.ErrOutcomeUnknown)
		w.at(time.Hour)
		if got := w.tracker.Stats(); got.Closing != 2 || got.Returned != 0 || got.Unknown != 2 {
			t.Fatalf("%d closing, %d returned, %d unknown, want 2, 0, 2", got.Closing, got.Returned, got.Unknown)
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

// E4: the refusal of a close under a former attachment does not take back the mark of a later one.
func TestE4FormerAttachment(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		first, second := make(chan struct{}), make(chan struct{})
		calls := []chan struct{}{first, second}
		w.log.answer = func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, ok := c.(session.CloseSessions); !ok || len(calls) == 0 {
				return session.Result{}, nil, false
			}
			call := calls[0]
			calls = calls[1:]
			<-call
			return session.Result{}, session.ErrNotLeader, true
		}
		w.join(1, prompt)
		defer w.run()()
		w.at(4250 * ms)
		w.log.apply(session.MoveSession{ID: 5, NewOwner: 1}, term)
		w.at(8500 * ms)
		if got := w.tracker.Stats().Closing; got != 1 {
			t.Fatalf("%d closing, want 1 under the new attachment", got)
		}
		close(first)
		synctest.Wait()
		if got := w.tracker.Stats().Closing; got != 1 {
			t.Errorf("%d closing after the former close was refused, want 1", got)
		}
		close(second)
	})
}

// E5: until the log has decided, a client hears CLOSING, and then that its session has ended.
func TestE5OnlyTheLogSays(t *testing.T) {
	bubble(t, voters(1), func(w *world) {
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

// S1: an answer is confirmed when it had been processed before the begin of a round that became good, not when it was
// processed before the round became good.
func TestS1ProcessedBeforeBegin(t *testing.T) {
	bubble(t, voters(1, 2, 3), func(w *world) {
		w.follow(&member{w: w, hello: session.Hello{Node: 1, Stream: 1}, reply: prompt, delay: ms})
		second, third := w.join(2, nil), w.join(3, nil)
		defer w.run()()
		w.at(100 * ms)
		second.says(answer(1)) // makes round 1 good, after it began
		w.at(500 * ms)
		if got := second.last(); got.Round != 2 || got.Good != 1 || got.Confirmed != 0 {
			t.Errorf("%+v, want round 2, good 1, nothing confirmed: round 1 began before the answer was processed", *got)
		}
		w.at(600 * ms)
		second.says(answer(2)) // round 2 is good now; it began after answer 1 was processed
		w.at(1000 * ms)
		if got := second.last(); got.Round != 3 || got.Good != 2 || got.Confirmed != 1 {
			t.Errorf("%+v, want round 3, good 2, confirmed 1", *got)
		}
		// An answer that makes nothing good, and rounds that do not become good, confirm nothing more.
		third.says(answer(1))
		w.at(10 * time.Second)
		second.says(answer(3)) // good: 3, which began after answer 2 was processed
		if got := second.last(); got.Confirmed != 2 || got.Good != 3 {
			t.Errorf("%+v, want good 3, confirmed 2", *got)
		}
	})
}

// S1: without good rounds nothing is confirmed.
func TestS1NeedsGoodRounds(t *testing.T) {
	members := append(voters(1, 3, 4), session.Member{Node: 2})
	bubble(t, members, func(w *world) {
		w.join(1, prompt)
		m := w.join(2, prompt)
		defer w.run()()
		w.at(time.Minute)
		if got := m.last(); got.Confirmed != 0 || got.Good != 0 {
			t.Errorf("%+v, want nothing good and nothing confirmed", *got)
		}
	})
}

// S1: touches not taken are named, once, together with the answer's confirmation.
func TestS1NotTaken(t *testing.T) {
	late(t, func(w *world) {
		w.has(4, 2)
		w.has(5, 3)
		w.has(6, 3)
		applied := w.view.attachment
		w.has(7, 3)
		m := w.join(3, nil)
		defer w.run()()
		w.at(100 * ms)
		a := answer(1, session.Touch{ID: 4}, session.Touch{ID: 5}, session.Touch{ID: 7}, session.Touch{ID: 9})
		a.Attachment, a.Last = applied, false
		m.says(a) // in two chunks
		a = answer(1, session.Touch{ID: 6}, session.Touch{ID: 8})
		a.Attachment = applied
		m.says(a)
		w.at(500 * ms)
		if got := m.last(); got.Confirmed != 0 || got.NotTaken != nil {
			t.Errorf("%+v, want nothing named before it is confirmed", *got)
		}
		m.says(answer(2))
		w.at(1000 * ms)
		if got, want := m.last(), []session.ID{4, 7, 9, 8}; got.Confirmed != 1 || !sameIDs(got.NotTaken, want) {
			t.Errorf("%+v, want confirmed 1, not taken %v", *got, want)
		}
		m.says(answer(3))
		w.at(1500 * ms)
		if got := m.last(); got.Confirmed != 2 || got.NotTaken != nil {
			t.Errorf("%+v, want confirmed 2 and nothing named twice", *got)
		}
	})
}

func sameIDs(a, b []session.ID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// S1: an answer on an ended stream is never confirmed, nor is what it named as not taken.
func TestS1EndedStream(t *testing.T) {
	trio(t, func(w *world) {
		m := w.join(3, nil)
		defer w.run()()
		m.says(answer(1, session.Touch{ID: 9}))
		w.at(1000 * ms)
		m.cut()
		m = w.join(3, prompt)
		for w.now() < 2*time.Second {
			w.at(w.now() + beat)
			got := m.last()
			if got.Confirmed != 0 && got.Confirmed < 3 || got.NotTaken != nil {
				t.Errorf("%+v on the new stream, whose first answer was to round 3", *got)
			}
		}
		if got := m.last().Confirmed; got == 0 {
			t.Error("the new stream's own answers are not confirmed")
		}
	})
}

// S1: a learner whose touches not taken wait without bound loses its stream; a new one starts complete.
func TestS1NotTakenBounded(t *testing.T) {
	trio(t, func(w *world) {
		m := w.join(3, nil)
		defer w.run()()
		touches := make([]session.Touch, 1<<15)
		for i := range touches {
			touches[i].ID = session.ID(i + 1)
		}
		w.at(0)
		part := answer(1, touches...)
		part.Last = false
		m.says(part)
		m.says(part)
		select {
		case err := <-m.ended:
			t.Fatalf("ended with %v at the bound", err)
		default:
		}
		m.says(answer(1, session.Touch{ID: 1}))
		if err := m.err(); err == nil {
			t.Error("not ended beyond the bound")
		}
	})
}

// S2: an open and a move set the deadline like a touch.
func TestS2OpenAndMove(t *testing.T) {
	trio(t, func(w *world) {
		m := w.join(3, prompt)
		defer w.run()()
		w.at(1100 * ms)
		m.asks(session.Request{Seq: 1, Open: &session.OpenRequest{Timeout: long}})
		opened := m.replied(1).Session // due at 5.12 s
		w.at(2100 * ms)
		m.asks(session.Request{Seq: 2, Open: &session.OpenRequest{Timeout: long}})
		moved := m.replied(2).Session
		w.at(3100 * ms)
		m.asks(session.Request{Seq: 3, Resume: &session.ResumeRequest{Token: token(moved)}})
		if r := m.replied(3); r == nil || r.Err != nil || r.Session.Attachment <= moved.Attachment {
			t.Fatalf("resume: %+v", r) // due at 7.12 s
		}
		w.expires(5250*ms, opened.ID)
		w.expires(7250*ms, moved.ID)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got, want := closes[1].Sessions[0].LastTouchAge, 7250*ms-3100*ms; got != want {
			t.Errorf("last touch %v ago, want %v", got, want)
		}
	})
}
