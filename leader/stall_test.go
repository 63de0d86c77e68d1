package leader_test

import (
	"testing"
	"time"

	"holdfast/session"
)

const grace = session.GraceIntervals * beat

// hiccuping is an owner whose process stalls again and again. It answers a heartbeat that arrives in a stall after the
// stall.
type hiccuping struct {
	w *world
	// from is when the first stall begins, every the time between two begins, and lasts the length of a stall.
	from, every, lasts time.Duration
	// stood is the newest heartbeat that arrived in a stall.
	stood  *session.Heartbeat
	member *member
}

// owns makes h node 3, the owner of a session that is touched at 0 and then falls silent.
func (h *hiccuping) owns(w *world, id session.ID) {
	h.w = w
	w.has(id, 3)
	h.member = w.join(3, func(b *session.Heartbeat) *session.Answer {
		if into := (w.now() - h.from) % h.every; w.now() >= h.from && into < h.lasts {
			h.stood = b
			return nil
		}
		if b.Round == 1 {
			return h.says(b, session.Touch{ID: id})
		}
		return h.says(b)
	})
}

// says returns the answer to a heartbeat now.
func (h *hiccuping) says(b *session.Heartbeat, touches ...session.Touch) *session.Answer {
	a := answer(b.Round, touches...)
	if now := h.w.now(); now >= h.from+h.lasts {
		ago := now - h.from - h.lasts
		for a.StallAge, a.Credit = ago%h.every, 0; ago >= 0; ago -= h.every {
			a.Credit += h.lasts + min(grace, h.every-h.lasts)
		}
	}
	return a
}

// runs lets time pass until d. At the end of each stall the owner answers the heartbeat that arrived in it.
func (h *hiccuping) runs(d time.Duration) {
	for end := h.from + h.lasts; end <= d; end += h.every {
		if end < h.w.now() {
			continue
		}
		h.w.at(end)
		if b := h.stood; b != nil {
			h.stood = nil
			h.member.says(h.says(b))
		}
	}
	h.w.at(d)
}

// E1, I2: an owner that stalls more often than the timeout holds a dead session for its stalls and the grace after
// each, and no longer. A full timeout after each stall would hold the session for ever.
func TestE1HiccupsHoldNoDeadSession(t *testing.T) {
	trio(t, func(w *world) {
		h := &hiccuping{from: time.Second, every: 3500 * ms, lasts: 750 * ms}
		h.owns(w, 5)
		defer w.run()()
		h.runs(touched + 2*(h.lasts+grace)) // two hiccups are over by then, at 1.75 s and 5.25 s
		w.alive(5)
		h.runs(touched + 2*(h.lasts+grace) + width)
		w.alive()
	})
}

// E1: a stall that ended before the newest touch earns the session no credit.
func TestE1StallBeforeTheTouch(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, func(b *session.Heartbeat) *session.Answer {
			if w.now() < 2*time.Second {
				return answer(b.Round)
			}
			a := answer(b.Round, session.Touch{ID: 5, Age: w.now() - 1600*ms})
			a.StallAge, a.Credit = w.now()-1500*ms, time.Second
			if b.Round > 6 {
				a.Touches = nil
			}
			return a
		})
		defer w.run()()
		// The touch was at 1.6 s, after the stall.
		w.expires(5750*ms, 5)
	})
}

// E1, I1: whatever the credit of a stall is, no session comes due within two intervals of its end: the owner has not
// read its sockets yet.
func TestE1GraceAfterAStall(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		h := w.join(3, touching(1, session.Touch{ID: 5}))
		defer w.run()()
		w.at(3900 * ms)
		h.replies(nil)
		w.at(4700 * ms)
		w.alive(5)
		stalled := func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			a.StallAge, a.Credit = w.now()-4700*ms, 1
			return a
		}
		h.replies(stalled)
		h.says(stalled(h.last()))
		w.expires(5750*ms, 5)
	})
}

// E1: a stall earns at most the time on the leader's clock since the owner's previous answer, plus the grace. A wall
// clock that was set forward by a year is no year of silence.
func TestE1CreditIsBounded(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			if b.Round == 1 {
				a = answer(b.Round, session.Touch{ID: 5})
			}
			if w.now() >= 2*time.Second {
				a.StallAge, a.Credit = w.now()-2*time.Second, 366*24*time.Hour
			}
			return a
		})
		defer w.run()()
		w.expires(5750*ms, 5) // touched + beat + grace
	})
}

// E1: each stream reports the sum of credits anew, and it counts once. The sum of another process counts from that
// process's start.
func TestE1CreditOfAStreamAndOfAProcess(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hello session.Hello
		ends  time.Duration
	}{
		// touched + credit
		{
			"the next stream",
			session.Hello{Node: 3, Incarnation: 1, Stream: 2},
			5750 * ms,
		},
		// its stall + timeout
		{"the next process", session.Hello{Node: 3, Incarnation: 2, Stream: 1}, 8500 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trio(t, func(w *world) {
				w.has(5, 3)
				says := func(b *session.Heartbeat) *session.Answer {
					a := answer(b.Round)
					if b.Round == 1 {
						a = answer(b.Round, session.Touch{ID: 5})
					}
					if w.now() >= 3000*ms {
						a.StallAge, a.Credit = w.now()-3000*ms, 600*ms+grace
					}
					if tt.hello.Incarnation == 2 && w.now() > 3500*ms {
						a.ProcessAge, a.StallAge, a.Credit = w.now()-3500*ms, w.now()-3500*ms, 0
						if stalled := 4400 * ms; w.now() > stalled {
							a.StallAge, a.Credit = w.now()-stalled, 600*ms+grace
						}
					}
					return a
				}
				first := w.join(3, says)
				defer w.run()()
				w.at(3700 * ms)
				first.cut()
				w.stream(tt.hello, says)
				w.at(4500 * ms)
				w.expires(tt.ends, 5)
			})
		})
	}
}

// E1: a stall that ended before the term earns no credit: the term gives every session a full timeout.
func TestE1StallBeforeTheTerm(t *testing.T) {
	trio(t, func(w *world) {
		w.has(5, 3)
		w.join(3, func(b *session.Heartbeat) *session.Answer {
			a := answer(b.Round)
			a.StallAge, a.Credit = w.now()+10*ms, time.Minute
			if w.now() >= time.Second { // another stall
				a.StallAge, a.Credit = w.now()-time.Second, time.Minute+100*ms
			}
			return a
		})
		defer w.run()()
		w.expires(4250*ms, 5)
	})
}
