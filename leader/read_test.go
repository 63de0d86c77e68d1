package leader_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// R4: a good round that begins after a read was asked answers it, with the index noted before. One round serves all
// readers that wait; it begins as soon as the round before it is good, and not earlier.
func TestR4Reads(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		defer w.run()()
		m := w.join(1, prompt)
		other := w.join(2, nil)
		w.at(100 * ms)
		w.view.mu.Lock()
		w.view.commit = 41
		w.view.mu.Unlock()
		for seq := range uint64(100) {
			m.asks(session.Request{Seq: seq, Read: &session.ReadRequest{}})
		}
		w.view.mu.Lock()
		w.view.commit = 50
		w.view.mu.Unlock()
		other.says(answer(1))
		if r := m.replied(1); r != nil {
			w.t.Fatalf("answered %+v by a round that had begun before", r)
		}
		if got := other.last().Round; got != 2 {
			w.t.Fatalf("newest round %d, want 2 at once when 1 is good", got)
		}
		other.says(answer(2))
		for seq := range uint64(100) {
			if r := m.replied(seq); r == nil || r.Index != 41 || r.Err != nil || r.Term != term {
				w.t.Fatalf("reply %d = %+v, want index 41", seq, r)
			}
		}
		if got := w.tracker.Stats().Rounds; got != 2 {
			t.Errorf("%d rounds for 100 readers, want 2", got)
		}
		if w.now() != 100*ms {
			t.Errorf("the reads were answered at %v, want at once", w.now())
		}
	})
}

// R4: without a quorum no read is answered. When the term ends, the read is refused.
func TestR4NoQuorumNoRead(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		stop := w.run()
		m := w.join(1, prompt)
		m.asks(session.Request{Seq: 1, Read: &session.ReadRequest{}})
		w.at(time.Minute)
		if r := m.replied(1); r != nil {
			t.Errorf("answered %+v without a quorum", r)
		}
		stop()
	})
}

// R4, E1: the remaining time of sessions, by the leader's own deadlines.
func TestR4Remaining(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.has(5, 1)
		w.has(6, 1)
		defer w.run()()
		m := w.join(1, func(b *session.Heartbeat) *session.Answer {
			if b.Round > 2 {
				return answer(b.Round)
			}
			return answer(b.Round, session.Touch{ID: 5, Age: 300 * ms})
		})
		w.at(time.Second)
		m.asks(session.Request{Seq: 1, Read: &session.ReadRequest{Remaining: []session.ID{6, 9, 5}}})
		r := m.replied(1)
		if r == nil || len(r.Remaining) != 3 {
			w.t.Fatalf("reply %+v", r)
		}
		if want := long - time.Second; r.Remaining[0] != want {
			t.Errorf("never touched: %v left, want %v", r.Remaining[0], want)
		}
		if r.Remaining[1] >= 0 {
			t.Errorf("unknown session: %v left, want negative", r.Remaining[1])
		}
		if want := 500*ms - 300*ms + touched - time.Second; r.Remaining[2] != want {
			t.Errorf("touched: %v left, want %v", r.Remaining[2], want)
		}
		m.asks(session.Request{Seq: 2, Read: &session.ReadRequest{Remaining: make([]session.ID, session.MaxPage+1)}})
		if r := m.replied(2); r == nil || !errors.Is(r.Err, session.ErrInvalid) {
			t.Errorf("too many ids: %+v, want ErrInvalid", r)
		}
	})
}
