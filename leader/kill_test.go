package leader_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// kills asks to end sessions.
func kills(seq uint64, ids ...session.ID) session.Request {
	return session.Request{Seq: seq, Kill: &session.KillRequest{IDs: ids, By: "ops", Why: "stuck"}}
}

// An operator ends sessions in one entry, whoever owns them. Each has its own outcome.
func TestKill(t *testing.T) {
	inBubble(t, voters(1, 2), func(w *world) {
		mine, other := w.has(1<<56|1, 1), w.has(2<<56|1, 2)
		left := w.has(2<<56|2, 2)
		m := w.join(1, prompt)
		w.join(2, prompt)
		defer w.run()()
		w.at(beat)
		m.asks(kills(1, mine.ID, 77, other.ID))
		w.at(2 * beat)
		r := m.replied(1)
		if r == nil || r.Err != nil || len(r.Moved) != 3 || r.Index != w.log.newest() {
			t.Fatalf("the reply is %+v", r)
		}
		if r.Moved[0].Attachment != mine.Attachment || r.Moved[2].Attachment != other.Attachment ||
			!errors.Is(r.Moved[1].Err, session.ErrExpired) {
			t.Errorf("outcomes %+v", r.Moved)
		}
		w.alive(left.ID)
		closes, _ := proposed[session.CloseSessions](w.log)
		if len(closes) != 1 || closes[0].Cause != session.CauseKilled || closes[0].By != "ops" || closes[0].Why != "stuck" ||
			closes[0].Term != term {
			t.Errorf("proposed %+v", closes)
		}
		if got := w.tracker.Stats().Killed; got != 2 {
			t.Errorf("%d were counted, want 2", got)
		}
	})
}

// M6, E4: a session that is being killed is neither moved nor killed twice; a kill that was certainly not appended
// leaves the session as it was.
func TestKillMarksSessions(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		s := w.has(1<<56|1, 1)
		m := w.join(1, prompt)
		release := w.blocked()
		defer w.run()()
		w.at(beat)
		m.asks(kills(1, s.ID))
		w.at(2 * beat)
		m.asks(session.Request{Seq: 2, Resume: &session.ResumeRequest{Token: token(s), Instance: 5, Attempt: 1}})
		m.asks(kills(3, s.ID))
		w.at(3 * beat)
		if r := m.replied(2); r == nil || !errors.Is(r.Err, session.ErrClosing) {
			t.Errorf("the resume: %+v", r)
		}
		if r := m.replied(3); r == nil || len(r.Moved) != 1 || !errors.Is(r.Moved[0].Err, session.ErrClosing) {
			t.Errorf("the second kill: %+v", r)
		}
		release(session.ErrNotLeader)
		if r := m.replied(1); r == nil || len(r.Moved) != 1 || !errors.Is(r.Moved[0].Err, session.ErrNotLeader) {
			t.Errorf("the first kill: %+v", r)
		}
		w.alive(s.ID)
		m.asks(kills(4, s.ID))
		w.at(4 * beat)
		if r := m.replied(4); r == nil || len(r.Moved) != 1 || r.Moved[0].Err != nil {
			t.Errorf("after the refusal: %+v", r)
		}
		w.alive()
	})
}

// A decision to expire records how late it is, the credit for stalls of the owner, and for how long a lost owner was
// silent.
func TestExpiryRecordsItsStory(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		w.has(2<<56|1, 2)
		w.join(1, prompt)
		w.join(3, prompt)
		defer w.run()()
		w.at(3 * long)
		closes, _ := proposed[session.CloseSessions](w.log)
		if len(closes) != 1 || len(closes[0].Sessions) != 1 {
			t.Fatalf("proposed %+v", closes)
		}
		one := closes[0].Sessions[0]
		if one.Silent < long || one.Silent > long+time.Second || one.Late > time.Second {
			t.Errorf("silent %v, late %v; want about %v", one.Silent, one.Late, long)
		}
	})
}

// An explanation has the facts by which the leader will decide.
func TestExplain(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		touched, lost := w.has(1<<56|1, 1), w.has(2<<56|1, 2)
		m := w.join(1, func(b *session.Heartbeat) *session.Answer {
			if w.now() > 4*beat {
				return answer(b.Round)
			}
			return answer(b.Round, session.Touch{ID: touched.ID, Age: 100 * time.Millisecond})
		})
		w.join(3, prompt)
		defer w.run()()
		w.at(7 * beat)
		m.asks(session.Request{Seq: 1, Explain: touched.ID})
		m.asks(session.Request{Seq: 2, Explain: lost.ID})
		m.asks(session.Request{Seq: 3, Explain: 99})
		w.at(7*beat + 10*ms)
		v := m.replied(1).Vigil
		if v == nil || v.Leader != 1 || v.Term != term || v.LastTouchAge < 2*beat || v.LastTouchAge > 5*beat ||
			v.Silent != 0 || v.Closing || v.Remaining <= 0 || v.Remaining > long {
			t.Errorf("of a touched session: %+v", v)
		}
		if v = m.replied(2).Vigil; v == nil || v.LastTouchAge >= 0 || v.Silent == 0 || v.VouchedAge < v.Silent-beat ||
			v.Remaining > long-6*beat {
			t.Errorf("of a lost owner's: %+v", v)
		}
		if r := m.replied(3); !errors.Is(r.Err, session.ErrExpired) || r.Index == 0 && w.log.newest() != 0 {
			t.Errorf("of none: %+v", r)
		}
	})
}
