package leader_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/leader"
	"holdfast/session"
)

// R1: a round begins in every interval, for every member. A member has at most one unanswered heartbeat; when it
// answers an old one, the newest is sent at once. A slow member delays no other.
func TestR1Rounds(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.join(1, prompt)
		w.join(2, prompt)
		slow := w.join(3, nil)
		defer w.run()()
		w.at(1200 * ms)
		slow.says(answer(1))
		w.at(1700 * ms)
		want := strings.Join([]string{
			"0s  heartbeat 1 to 1",
			"0s  heartbeat 1 to 2",
			"0s  heartbeat 1 to 3",
			"500ms  heartbeat 2 to 1",
			"500ms  heartbeat 2 to 2",
			"1s  heartbeat 3 to 1",
			"1s  heartbeat 3 to 2",
			"1.2s  heartbeat 3 to 3",
			"1.5s  heartbeat 4 to 1",
			"1.5s  heartbeat 4 to 2",
		}, "\n")
		if got := w.transcript(); got != want {
			t.Errorf("transcript:\n%s\nwant:\n%s", got, want)
		}
		slow.says(answer(3))
		if got := slow.last().Round; got != 4 {
			t.Errorf("after its answer to 3 the slow member has heartbeat %d, want 4", got)
		}
	})
}

// R1: a member that does not even read delays no other.
func TestR1StuckMember(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.join(1, prompt)
		other := w.join(2, prompt)
		stuck := make(chan struct{})
		w.follow(&member{w: w, hello: session.Hello{Node: 3, Stream: 1}, stuck: stuck})
		defer w.run()()
		w.at(10 * beat)
		if got := other.last(); got.Round != 11 || got.Good != 10 {
			t.Errorf("at %v the other member has round %d, good %d, want 11, 10", w.now(), got.Round, got.Good)
		}
		close(stuck)
	})
}

// good returns the newest good round.
func (w *world) good() uint64 {
	synctest.Wait()
	return w.tracker.Stats().GoodRound
}

// R3: a quorum of the voters makes a round good, and nodes without a vote do not count.
func TestR3Quorum(t *testing.T) {
	observers := []session.Member{{Node: 4}, {Node: 5}, {Node: 6}}
	for _, c := range []struct {
		name    string
		members []session.Member
		answer  []session.Node
		good    bool
	}{
		{"one of one", voters(1), []session.Node{1}, true},
		{"one of two", voters(1, 2), []session.Node{1}, false},
		{"one of three", voters(1, 2, 3), []session.Node{1}, false},
		{"two of three", voters(1, 2, 3), []session.Node{1, 2}, true},
		{"two of three without the leader", voters(1, 2, 3), []session.Node{2, 3}, true},
		{"two of four", voters(1, 2, 3, 7), []session.Node{1, 2}, false},
		{"two of five", voters(1, 2, 3, 7, 8), []session.Node{1, 2}, false},
		{"three of five", voters(1, 2, 3, 7, 8), []session.Node{1, 7, 8}, true},
		{"one voter and all observers", append(voters(1, 2, 3), observers...), []session.Node{1, 4, 5, 6}, false},
		{"two voters beside observers", append(voters(1, 2, 3), observers...), []session.Node{1, 2}, true},
		{"a leader that does not vote", append(voters(2, 3, 7), session.Member{Node: 1}), []session.Node{1, 2}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.members, func(w *world) {
				defer w.run()()
				for _, n := range c.answer {
					w.join(n, prompt)
				}
				if got := w.good() > 0; got != c.good {
					t.Errorf("good: %v, want %v", got, c.good)
				}
			})
		})
	}
}

// R3: observers never count, however many they are and however long the voters are silent.
func TestR3ObserversNeverCount(t *testing.T) {
	members := append(voters(1, 2, 3), session.Member{Node: 4}, session.Member{Node: 5})
	inBubble(t, members, func(w *world) {
		defer w.run()()
		w.join(1, prompt)
		w.join(4, prompt)
		w.join(5, prompt)
		w.at(time.Minute)
		if got := w.good(); got != 0 {
			t.Errorf("round %d is good without a second voter", got)
		}
		w.join(2, prompt)
		if got := w.good(); got == 0 {
			t.Error("no round is good with a second voter")
		}
	})
}

// R3: an answer from a newer term does not count, and does not end the term either. An answer from an older term
// counts.
func TestR3NewerTermNeverCounts(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		defer w.run()()
		w.join(1, prompt)
		var in atomic.Uint64
		in.Store(term + 1)
		w.join(2, func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			a.Term = in.Load()
			return a
		})
		w.at(3 * beat)
		if got := w.good(); got != 0 {
			t.Errorf("round %d is good by an answer of a newer term", got)
		}
		in.Store(term - 1)
		w.at(4 * beat)
		if got := w.good(); got != 5 {
			t.Errorf("round %d is good by an answer of an older term, want 5", got)
		}
	})
}

// R3: the tracker ends at once when its own node is in a newer term, and the answer that shows it makes no round good.
func TestR3OwnTermEndsTheTracker(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		stop := w.run()
		m := w.join(1, prompt)
		w.at(2 * beat)
		w.view.mu.Lock()
		w.view.term++
		w.view.mu.Unlock()
		w.at(3 * beat)
		if got := m.err(); !errors.Is(got, leader.ErrTermOver) {
			t.Errorf("the stream ended with %v, want ErrTermOver", got)
		}
		if got := stop(); !errors.Is(got, leader.ErrTermOver) {
			t.Errorf("Run = %v, want ErrTermOver", got)
		}
		if got := w.good(); got != 3 {
			t.Errorf("good: %d, want 3", got)
		}
		if err := w.join(1, prompt).err(); !errors.Is(err, leader.ErrTermOver) {
			t.Errorf("a stream after the end: %v, want ErrTermOver", err)
		}
	})
}

// R3: an answer of the leader's own relay shows the node's term too.
func TestR3OwnAnswerEndsTheTracker(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		stop := w.run()
		m := w.join(1, nil)
		a := answer(1)
		a.Term = term + 1
		m.says(a)
		if got := stop(); !errors.Is(got, leader.ErrTermOver) {
			t.Errorf("Run = %v, want ErrTermOver", got)
		}
	})
}

// R3: the voters of the newest configuration make the quorum.
func TestR3NewestConfiguration(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		defer w.run()()
		w.join(1, prompt)
		second := w.join(2, nil)
		w.view.mu.Lock()
		w.view.members = voters(1, 2, 3, 4, 5)
		w.view.mu.Unlock()
		second.says(answer(1))
		if got := w.good(); got != 0 {
			t.Errorf("round %d is good by two of five", got)
		}
		w.view.mu.Lock()
		w.view.members = voters(1, 2, 3)
		w.view.mu.Unlock()
		w.at(beat)
		if got := w.good(); got != 1 {
			t.Errorf("good: %d, want 1 by two of three", got)
		}
	})
}

// R3, T3: an answer counts when its last chunk arrives, and not before.
func TestR3LastChunk(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		defer w.run()()
		m := w.join(1, nil)
		a := answer(1)
		a.Last = false
		m.says(a)
		if got := w.good(); got != 0 {
			t.Error("good by a part of an answer")
		}
		m.says(answer(1))
		if got := w.good(); got != 1 {
			t.Errorf("good: %d, want 1", got)
		}
	})
}

// R5: a tracker of a term that is over before it starts does nothing.
func TestR5TermOverAtTheStart(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.view.term = term + 1
		w.has(5, 1)
		if err := w.run()(); !errors.Is(err, leader.ErrTermOver) {
			t.Errorf("Run = %v, want ErrTermOver", err)
		}
		if got := w.tracker.Stats().Rounds; got != 0 {
			t.Errorf("%d rounds began, want none", got)
		}
	})
}

// T6: the newest stream of a member counts, by incarnation and number. A stream that is not newer is refused, even
// after the newest has ended. A node that is no member gets no stream.
func TestT6NewestStream(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		defer w.run()()
		hello := func(incarnation, number uint64) session.Hello {
			return session.Hello{Node: 2, Incarnation: incarnation, Stream: number}
		}
		w.join(1, prompt)
		first := w.stream(hello(3, 9), nil)
		for _, old := range []session.Hello{hello(3, 9), hello(3, 8), hello(2, 10)} {
			if err := w.stream(old, prompt).err(); !errors.Is(err, leader.ErrSuperseded) {
				t.Errorf("stream %+v after (3, 9): %v, want ErrSuperseded", old, err)
			}
		}
		second := w.stream(hello(4, 1), nil)
		if err := first.err(); !errors.Is(err, leader.ErrSuperseded) {
			t.Errorf("the former stream ended with %v, want ErrSuperseded", err)
		}
		first.says(answer(1))
		if got := w.good(); got != 0 {
			t.Error("an answer on the former stream counted")
		}
		second.says(answer(1))
		if got := w.good(); got != 1 {
			t.Errorf("good: %d, want 1 by the newest stream", got)
		}
		second.cut()
		if err := w.stream(hello(4, 1), prompt).err(); !errors.Is(err, leader.ErrSuperseded) {
			t.Errorf("the ended stream again: %v, want ErrSuperseded", err)
		}
		stranger := w.stream(session.Hello{Node: 9, Stream: 1}, prompt)
		if err := stranger.err(); !errors.Is(err, session.ErrWrongCluster) || stranger.welcome != nil {
			t.Errorf("a stranger: %v, want ErrWrongCluster; welcome %+v", err, stranger.welcome)
		}
	})
}

// T6, M6: the stream of a removed member ends.
func TestT6RemovedMember(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		defer w.run()()
		w.join(1, prompt)
		removed := w.join(3, prompt)
		w.view.mu.Lock()
		w.view.members = voters(1, 2)
		w.view.mu.Unlock()
		w.at(beat)
		if err := removed.err(); !errors.Is(err, session.ErrWrongCluster) {
			t.Errorf("the removed member's stream ended with %v, want ErrWrongCluster", err)
		}
		good := w.good()
		w.at(5 * beat)
		if got := w.good(); got != good {
			t.Errorf("round %d became good by one of two", got)
		}
	})
}

// A message that no learner sends ends its stream.
func TestProtocol(t *testing.T) {
	for name, say := range map[string]session.LearnerMessage{
		"answer to a round to come": {Answer: answer(9)},
		"nothing":                   {},
		"corrupt touches":           {Answer: &session.Answer{Round: 1, Term: term, Touches: []byte{0, 0}, Last: true}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, voters(1), func(w *world) {
				defer w.run()()
				m := w.join(1, nil)
				m.out <- say
				if err := m.err(); !errors.Is(err, leader.ErrProtocol) && !errors.Is(err, session.ErrCorruptTouches) {
					t.Errorf("the stream ended with %v", err)
				}
				if got := w.good(); got != 0 {
					t.Error("the answer counted")
				}
			})
		})
	}
}

func TestWelcome(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		defer w.run()()
		want := session.Welcome{Term: term, Leader: 1}
		if got := w.join(1, prompt).welcome; got == nil || *got != want {
			t.Errorf("welcome = %+v", got)
		}
	})
}

// A snapshot that replaces the state ends the term.
func TestRestored(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		stop := w.run()
		w.tracker.Restored()
		if err := stop(); !errors.Is(err, leader.ErrRestored) {
			t.Errorf("Run = %v, want ErrRestored", err)
		}
	})
}
