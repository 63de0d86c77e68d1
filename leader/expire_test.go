package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
)

// trio runs a leader of three voters with prompt relays on nodes 1 and 2. The test plays node 3.
func trio(t *testing.T, test func(w *world)) {
	t.Helper()
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.join(1, prompt)
		w.join(2, prompt)
		test(w)
	})
}

// late is trio with relays that answer after 1 ms, so that all heartbeats of a round are sent before it is good.
func late(t *testing.T, test func(w *world)) {
	t.Helper()
	inBubble(t, voters(1, 2, 3), func(w *world) {
		for _, n := range []session.Node{1, 2} {
			w.follow(&member{w: w, hello: session.Hello{Node: n, Stream: 1}, reply: prompt, delay: ms})
		}
		test(w)
	})
}

// until answers the heartbeats before d, and no later ones.
func (w *world) until(d time.Duration) func(*session.Heartbeat) *session.Answer {
	return func(b *session.Heartbeat) *session.Answer {
		if w.now() >= d {
			return nil
		}
		return answer(b.Round)
	}
}

// touching answers every heartbeat, and adds touches to the answer to one round.
func touching(round uint64, touches ...session.Touch) func(*session.Heartbeat) *session.Answer {
	return func(b *session.Heartbeat) *session.Answer {
		if b.Round == round {
			return answer(round, touches...)
		}
		return answer(b.Round)
	}
}

// E1: a session that was never touched has a full timeout from the term's start.
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

// E1: an owner whose process started at 3 s gives its sessions a full timeout from then.
func TestE1Vouch(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			if w.now() >= 3*time.Second {
				a.ProcessAge = w.now() - 3*time.Second
			}
			return a
		})
		defer w.run()()
		w.expires(7250*ms, 5)
	})
}

// E1, I8: an owner whose process started at 1 s gives its sessions a full timeout from then, on the accountable clock.
// No round is good from 2.5 s to 3.3 s, so the clock stands. The age that the owner reports afterwards takes that
// credit from no session.
func TestE1VouchKeepsCredit(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.has(5, 3)
		w.join(1, prompt)
		mute := func() bool { return w.now() > 1600*ms && w.now() < 3300*ms }
		other := w.join(2, func(b *session.Heartbeat) *session.Answer {
			if mute() {
				return nil
			}
			return answer(b.Round)
		})
		vouching := func(round uint64) *session.Answer {
			a := answer(round)
			a.ProcessAge = max(w.now()-time.Second, 0)
			return a
		}
		owner := w.join(3, func(b *session.Heartbeat) *session.Answer {
			if mute() {
				return nil
			}
			return vouching(b.Round)
		})
		defer w.run()()
		w.at(3300 * ms)
		other.says(answer(other.last().Round))
		owner.says(vouching(owner.last().Round))
		w.expires(6050*ms, 5)
	})
}

// E1: an owner that leaves the heartbeat of 2.5 s unanswered for three intervals is lost. Its sessions have a full
// timeout from that heartbeat.
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

// E1: if no heartbeat is unanswered when the stream ends, the full timeout begins when that end is noticed.
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

// E1: a member whose stream ended is lost at once. A member that has opened no stream is lost three intervals after the
// term's start.
func TestE1LostAtOnce(t *testing.T) {
	trio(t, func(w *world) {
		defer w.run()()
		w.at(600 * ms)
		if got := w.tracker.Stats(); got.Lost != 0 || got.Members != 2 {
			t.Errorf("%d lost, %d with a stream, want 0, 2", got.Lost, got.Members)
		}
		w.join(3, prompt).cut()
		synctest.Wait()
		if got := w.tracker.Stats(); got.Lost != 1 || got.Members != 2 {
			t.Errorf("%d lost, %d with a stream, want 1, 2", got.Lost, got.Members)
		}
	})
}

// E1: if a heartbeat is unanswered when the stream ends, the full timeout begins with that heartbeat.
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

// E1: if several streams end without a complete answer, the first end counts. An owner that opens streams again and
// again holds no sessions by it.
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

// E1: an owner that was lost for a moment holds no session by it, also none that the queue came to meanwhile.
func TestE1ALossThatEnds(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, touching(7, session.Touch{ID: 5})) // at 3 s
		defer w.run()()
		w.at(4200 * ms)
		m.cut()
		w.at(4400 * ms) // at 4.25 s the queue comes to the session: with its owner lost it is due at 8.2 s
		w.join(3, prompt)
		w.expires(7250*ms, 5)
	})
}

// E1: an answer ends the silence; the next silence begins at its own first moment.
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

// E1, M6: owners that have opened no stream in this term, members or not, hold no session beyond a timeout from its
// start.
func TestE1NeverSeen(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.has(6, 9)
		defer w.run()()
		w.expires(4250*ms, 5, 6)
	})
}

// M6: the sessions of a removed member follow the rule for lost owners.
func TestM6RemovedMember(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.has(5, 3)
		w.join(1, prompt)
		w.join(2, prompt)
		w.join(3, prompt)
		defer w.run()()
		w.at(2200 * ms)
		w.view.mu.Lock()
		w.view.members = voters(1, 2)
		w.view.mu.Unlock()
		// The removal is noticed at 2.5 s, when the next round begins.
		w.expires(6750*ms, 5)
	})
}

// E2: a due session waits for its owner's answer, and a touch in that answer counts.
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
		// The touch was at 4.9 s.
		w.at(6 * time.Second)
		m.says(answer(m.last().Round))
		w.expires(9*time.Second, 5)
	})
}

// E2: an answer of the owner without a touch ends a due session the moment it arrives.
func TestE2SilentWord(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		m := w.join(3, w.until(4250*ms))
		w.view.mu.Lock()
		s := w.view.sessions[5]
		s.Timeout += 100 * ms // due at 4.1 s, after the begin of the round of 4 s
		w.view.sessions[5] = s
		w.view.mu.Unlock()
		defer w.run()()
		w.at(4700 * ms)
		w.alive(5)
		if got := m.last().Round; got != 10 {
			w.t.Fatalf("newest round %d, want 10, which began at 4.25 s", got)
		}
		m.says(answer(10))
		w.alive()
		if w.now() != 4700*ms {
			t.Errorf("the session ended at %v, want at once", w.now())
		}
	})
}

// E2: a due session needs a good round that began at or after its due time, also when its owner is lost.
func TestE2NoGoodRound(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
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

// E2, I2: when sessions come due, one round begins at once for all of them. None begins if touches have moved their due
// times.
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

// I2: a session that comes due between two regular rounds expires by a round that begins at once.
func TestE2RoundAtOnce(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, touching(1, session.Touch{ID: 5}))
		defer w.run()()
		w.at(4249 * ms)
		before := w.tracker.Stats().Rounds
		w.expires(4250*ms, 5) // due at 4.02 s, after the regular round of 4 s
		if got := w.tracker.Stats().Rounds - before; got != 1 {
			t.Errorf("%d rounds, want 1 that began at once", got)
		}
	})
}
