package leader_test

import (
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

// A1, I8: a leader without a quorum ages no session. When the quorum is back, the clock continues from where it stood,
// and the certificate names the credit.
func TestA1NoQuorum(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.has(5, 1)
		w.join(1, prompt)
		other := w.join(2, prompt)
		defer w.run()()
		w.at(3 * time.Second)
		other.cut()
		// The last good round was found at 3 s: the clock stands at 4 s.
		w.at(time.Hour)
		if got := w.tracker.Stats(); got.Elapsed != 4*time.Second || got.Credited != time.Hour-4*time.Second ||
			got.ClockStops != 0 {
			t.Errorf("elapsed %v, credited %v, stands %d", got.Elapsed, got.Credited, got.ClockStops)
		}
		w.alive(5)
		w.join(2, prompt)
		if got := w.tracker.Stats(); got.ClockStops != 1 {
			t.Errorf("stands %d, want 1", got.ClockStops)
		}
		w.expires(time.Hour+width, 5)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got, want := closes[0].Credited, time.Hour-4*time.Second; got != want {
			t.Errorf("credited %v, want %v", got, want)
		}
	})
}

// A1, I8: a leader that was paused ages no session by more than two intervals.
func TestA1Paused(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		w.join(1, prompt)
		w.at(time.Hour)
		defer w.run()()
		w.expires(time.Hour+long-2*beat+width, 5)
	})
}

// A2: deadlines only move forward, so an older touch changes nothing.
func TestA2Forward(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
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
		// The session was touched at 1 s: due at 5.02 s, polled at 5.25 s.
		w.expires(5250*ms, 5)
	})
}

// T3: the touches of an answer count as they arrive, even if its last chunk never does.
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
		// The owner is lost: it did not answer the heartbeat of 2 s. The session is due at 6 s, with or without the
		// touch of 1.9 s.
		w.expires(6250*ms, 5)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got, want := closes[0].Sessions[0].LastTouchAge, 6250*ms-1900*ms; got != want {
			t.Errorf("last touch %v ago, want %v", got, want)
		}
	})
}

// T5: a touch counts if the session exists and the answering node owns it, under an attachment that the node had
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
			inBubble(t, voters(1, 2, 3), func(w *world) {
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
				if got := w.tracker.Stats(); got.TouchesAccepted != c.taken || got.TouchesRejected != 1-c.taken {
					t.Errorf("taken %d, not taken %d, want %d, %d", got.TouchesAccepted, got.TouchesRejected, c.taken, 1-c.taken)
				}
				w.expires(c.want, 5)
			})
		})
	}
}

// S1: an answer is confirmed if it was processed before a good round began. It is not enough that it was processed
// before the round became good.
func TestS1ProcessedBeforeBegin(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.follow(&member{w: w, hello: session.Hello{Node: 1, Stream: 1}, reply: prompt, delay: ms})
		second, third := w.join(2, nil), w.join(3, nil)
		defer w.run()()
		w.at(100 * ms)
		second.says(answer(1)) // makes round 1 good, after it began
		w.at(500 * ms)
		if got := second.last(); got.Round != 2 || got.Good != 1 || got.Confirmed != 0 {
			t.Errorf("%+v, want round 2, good 1, nothing confirmed: round 1 began before the answer was processed",
				*got)
		}
		w.at(600 * ms)
		second.says(answer(2)) // round 2 is good now; it began after answer 1 was processed
		w.at(1000 * ms)
		if got := second.last(); got.Round != 3 || got.Good != 2 || got.Confirmed != 1 {
			t.Errorf("%+v, want round 3, good 2, confirmed 1", *got)
		}
		// An answer that makes no round good, and rounds that do not become good, confirm nothing more.
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
	inBubble(t, members, func(w *world) {
		w.join(1, prompt)
		m := w.join(2, prompt)
		defer w.run()()
		w.at(time.Minute)
		if got := m.last(); got.Confirmed != 0 || got.Good != 0 {
			t.Errorf("%+v, want nothing good and nothing confirmed", *got)
		}
	})
}

// S1: refused touches are named once, in the heartbeat after their answer.
func TestS1RefusedTouches(t *testing.T) {
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
		got, want := m.last(), []session.ID{4, 7, 9, 8}
		if got.Confirmed != 0 || got.Processed != 1 || !sameIDs(got.RejectedTouches, want) {
			t.Errorf("%+v, want confirmed 0, processed 1, not taken %v", *got, want)
		}
		m.says(answer(2))
		w.at(1000 * ms)
		if got := m.last(); got.Confirmed != 1 || got.Processed != 2 || got.RejectedTouches != nil {
			t.Errorf("%+v, want confirmed 1, processed 2 and nothing named twice", *got)
		}
		m.says(answer(3))
		w.at(1500 * ms)
		if got := m.last(); got.Confirmed != 2 || got.RejectedTouches != nil {
			t.Errorf("%+v, want confirmed 2 and nothing named twice", *got)
		}
	})
}

func sameIDs(a, b []session.ID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// S1: an answer on an ended stream is never confirmed, and its refused touches are never named.
func TestS1EndedStream(t *testing.T) {
	trio(t, func(w *world) {
		m := w.join(3, nil)
		defer w.run()()
		w.at(0)
		m.says(answer(1, session.Touch{ID: 9}))
		w.at(1000 * ms)
		m.cut()
		m = w.join(3, prompt)
		for ; w.now() < 2*time.Second; w.at(w.now() + beat) {
			got := m.last()
			if got.Confirmed != 0 && got.Confirmed < 3 || got.RejectedTouches != nil {
				t.Errorf("%+v on the new stream, whose first answer was to round 3", *got)
			}
		}
		if got := m.last().Confirmed; got == 0 {
			t.Error("the new stream's own answers are not confirmed")
		}
	})
}

// S1: a learner with too many refused and unconfirmed touches loses its stream.
func TestS1RefusedTouchesAreBounded(t *testing.T) {
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
			w.t.Fatalf("the stream ended with %v at the bound", err)
		default:
		}
		m.says(answer(1, session.Touch{ID: 1}))
		if err := m.err(); err == nil {
			t.Error("the stream goes on beyond the bound")
		}
	})
}

// S2: an open and a move set the deadline like a touch.
func TestS2OpenAndMove(t *testing.T) {
	trio(t, func(w *world) {
		m := w.join(3, prompt)
		defer w.run()()
		w.at(1100 * ms)
		m.asks(session.Request{Seq: 1, Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}})
		opened := m.replied(1).Session // due at 5.12 s
		w.at(2100 * ms)
		m.asks(session.Request{Seq: 2, Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}})
		moved := m.replied(2).Session
		w.at(3100 * ms)
		m.asks(session.Request{Seq: 3, Resume: &session.ResumeRequest{Token: token(moved)}})
		if r := m.replied(3); r == nil || r.Err != nil || r.Session.Attachment <= moved.Attachment {
			w.t.Fatalf("resume: %+v", r) // due at 7.12 s
		}
		w.expires(5250*ms, opened.ID)
		w.expires(7250*ms, moved.ID)
		closes, _ := proposed[session.CloseSessions](w.log)
		if got, want := closes[1].Sessions[0].LastTouchAge, 7250*ms-3100*ms; got != want {
			t.Errorf("last touch %v ago, want %v", got, want)
		}
	})
}

// B3: a request between two chunks of an answer counts at once. After a resume at the same node, a later chunk's touch
// under the former attachment is rejected (S1 confirmed touches), and the resume's deadline stays (S2 opens and moves
// are touches).
func TestB3ARequestBetweenTwoChunks(t *testing.T) {
	trio(t, func(w *world) {
		m := w.join(3, prompt)
		defer w.run()()
		w.at(1100 * ms)
		m.asks(session.Request{Seq: 1, Open: &session.OpenRequest{Spec: session.Spec{Timeout: long}}})
		opened := m.replied(1).Session
		m.replies(nil)
		w.at(2000 * ms)
		round := m.last().Round
		part := answer(round)
		part.Attachment, part.Last = opened.Attachment, false
		m.says(part)
		m.asks(session.Request{Seq: 2, Resume: &session.ResumeRequest{Token: token(opened)}}) // due at 6.02 s
		if r := m.replied(2); r == nil || r.Err != nil {
			t.Fatalf("resume: %+v", r)
		}
		w.at(2400 * ms)
		m.replies(prompt)
		part = answer(round, session.Touch{ID: opened.ID})
		part.Attachment = opened.Attachment
		m.says(part)
		if got := m.last().RejectedTouches; !sameIDs(got, []session.ID{opened.ID}) {
			t.Errorf("rejected touches: %v, want %v", got, opened.ID)
		}
		w.expires(6250*ms, opened.ID)
	})
}
