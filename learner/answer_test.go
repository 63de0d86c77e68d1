package learner

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// C1, C2: a node reports its digest at the compared index, and none when it has none there. Judge gets the result of a
// comparison together with the digest that the node reported before.
func TestC1ReportsWhatItHas(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var own []session.StateDigest
		var found []session.Comparison
		w.server.cfg.OnComparison = func(reported session.StateDigest, f session.Comparison) {
			own, found = append(own, reported), append(found, f)
		}
		w.view.mu.Lock()
		w.view.digests[7] = [16]byte{1}
		w.view.mu.Unlock()
		l := w.follow()
		if got := l.beat(
			session.Heartbeat{Compare: 7},
		).Digest; got != (session.StateDigest{Index: 7, Digest: [16]byte{1}}) {
			t.Errorf("reports %+v", got)
		}
		w.view.mu.Lock()
		w.view.digests[7] = [16]byte{2} // a scrub has found damage
		w.view.mu.Unlock()
		said := session.Comparison{StateDigest: session.StateDigest{Index: 7, Digest: [16]byte{1}}, Agreed: true}
		if got := l.beat(session.Heartbeat{Compare: 9, Compared: said}).Digest; got != (session.StateDigest{}) {
			t.Errorf("reports %+v of an index that the node has not applied", got)
		}
		l.beat(session.Heartbeat{Compare: 9, Compared: said})
		want := []session.StateDigest{{}, {Index: 7, Digest: [16]byte{1}}, {}}
		for i := range want {
			if i >= len(own) || own[i] != want[i] || i > 0 && found[i] != said {
				t.Errorf("heartbeat %d: told %+v of %+v, want of %+v", i, found, own, want[i])
			}
		}
	})
}

func TestR2AnswersWithWhatTheNodeReadsThen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		for _, term := range []uint64{1, 1, 4} {
			w.view.mu.Lock()
			w.view.term, w.view.attachment = term, 10*term
			w.view.mu.Unlock()
			time.Sleep(time.Second)
			a := l.beat(session.Heartbeat{})
			if a.Term != term || a.Attachment != 10*term || a.Round != l.round ||
				a.StallAge != time.Since(w.server.clock.base) || a.ProcessAge != a.StallAge || a.Credit != 0 {
				t.Errorf("answer to round %d: %+v, want term %d and h %d as they are now", l.round, a.Answer, term,
					10*term)
			}
		}
	})
}

func TestT1HIsReadAfterTheTableIsSwapped(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		l.beat(session.Heartbeat{})
		w.conn.Touch([]session.ID{1})
		touched := false
		w.view.onAttachment = func() {
			if !touched {
				touched = true
				w.conn.Touch([]session.ID{2}) // too late for this answer
			}
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 1 {
			t.Errorf("answer holds %v, want session 1 only: h is read after the table was taken", got)
		}
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 1 {
			t.Errorf("next answer holds %v, want session 2 only", got)
		}
	})
}

func TestT1LeavesOutWhatMovedByH(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		l.beat(session.Heartbeat{})
		w.conn.Touch(nil)
		w.view.onAttachment = func() { // the move is applied after the table is taken, before h is read
			w.view.onAttachment = nil
			w.move(1, 5)
		}
		a := l.beat(session.Heartbeat{})
		if a.Attachment != 5 || len(a.touches) != 0 {
			t.Errorf("answer has h = %d and touches %v, want 5 and none", a.Attachment, a.touches)
		}
	})
}

func TestT3FirstAnswerOfAStreamIsCompleteAndTouchesGoOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		for i, want := range []int{2, 0, 1, 0} {
			if i == 2 {
				w.conn.Touch([]session.ID{2})
			}
			if got := l.beat(session.Heartbeat{}).touches; len(got) != want {
				t.Errorf("answer %d holds %v, want %d sessions", i, got, want)
			}
		}
		l = w.follow()
		if got := l.beat(session.Heartbeat{}).touches; len(got) != 2 {
			t.Errorf("first answer of the second stream holds %v, want both sessions", got)
		}
	})
}

func TestT4AgesCountFromTheTouchOrTheBeginOfServing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		w.open(2, 2)
		time.Sleep(3 * time.Second)
		w.conn.Touch([]session.ID{2})
		time.Sleep(2 * time.Second)
		got := l.beat(session.Heartbeat{}).touches
		if got[1] != 5*time.Second || got[2] != 2*time.Second {
			t.Errorf("ages are %v, want 5s since the open of 1 and 2s since the touch of 2", got)
		}
	})
}

// T4: ages are as of the taking of the table, even when the answer is slow on its way out.
func TestT4AgesCountToTheTakingOfTheTable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.open(1, 1)
		time.Sleep(3 * time.Second)
		w.view.onAttachment = func() { time.Sleep(interval) }
		got := l.beat(session.Heartbeat{})
		w.view.onAttachment = nil
		if got.touches[1] != 3*time.Second || got.StallAge != 3*time.Second {
			t.Errorf("the age is %v, and the node vouches for %v; want 3s both", got.touches[1], got.StallAge)
		}
	})
}

func TestE1IsLookedAtAgainWhileAnswering(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		time.Sleep(20 * interval)
		if got := l.beat(session.Heartbeat{}).StallAge; got != 20*interval {
			t.Errorf("vouches for %v, want %v since the start", got, 20*interval)
		}
		w.stall(2 * interval)
		got := l.beat(session.Heartbeat{})
		if got.StallAge != 0 || got.ProcessAge != 20*interval || got.Credit != (2+session.GraceIntervals)*interval {
			t.Errorf("after a stall the node vouches for %v, runs for %v and is credited with %v", got.StallAge,
				got.ProcessAge, got.Credit)
		}
	})
}

// S1: a confirmation covers the answers up to its round, and confirmed answers are forgotten.
func TestS1TheLogOfAnswers(t *testing.T) {
	l := &answerLog{}
	expect := func(confirmed, processed uint64, want confirmedAnswers) {
		t.Helper()
		if got := l.confirm(confirmed, processed); got != want {
			t.Errorf("confirmed %d, processed %d: %+v, want %+v", confirmed, processed, got, want)
		}
	}
	remember := func(from, to uint64) {
		for round := from; round <= to; round++ {
			l.remember(answered{round, 10 * round, time.Duration(round)}, session.StateDigest{Index: round})
		}
	}
	expect(5, 5, confirmedAnswers{})
	remember(1, 4)
	expect(0, 0, confirmedAnswers{})
	expect(2, 3, confirmedAnswers{confirmed: answered{2, 20, 2}, processed: 30})
	expect(2, 2, confirmedAnswers{}) // already confirmed
	expect(2, 3, confirmedAnswers{processed: 30})
	remember(5, 4+maxUnconfirmed)
	expect(4, 4, confirmedAnswers{}) // answers 3 and 4 were forgotten
	if got := l.digest().Index; got != 4+maxUnconfirmed {
		t.Errorf("the newest digest is of index %d, want %d", got, 4+maxUnconfirmed)
	}
	newest := uint64(4 + maxUnconfirmed)
	expect(math.MaxUint64, 0,
		confirmedAnswers{confirmed: answered{newest, 10 * newest, time.Duration(newest)}, processed: 10 * newest})
}

// R2: an answer's touches are in the order of their ids, whichever bytes of the ids differ.
func TestTouchesAreSortedById(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var spare []session.Touch
	for _, bits := range []session.ID{0, 0xff, 0xff00ff, 0xff << 56, 1<<48 - 1, math.MaxUint64} {
		for _, n := range []int{0, 1, 2, 1000} {
			touches := make([]session.Touch, n)
			for i := range touches {
				touches[i] = session.Touch{ID: 5<<56 ^ session.ID(r.Uint64())&bits, Age: time.Duration(i)}
			}
			want := slices.Clone(touches)
			slices.SortStableFunc(want, func(a, b session.Touch) int { return cmp.Compare(a.ID, b.ID) })
			var got []session.Touch
			if got, spare = sortTouches(touches, spare); !slices.Equal(got, want) {
				t.Errorf("%d touches with ids that differ in %x are in another order", n, uint64(bits))
			}
		}
	}
}

// The buffers of a stream's answers keep no attachment: it may end before the next answer.
func TestBuffersKeepNoAttachment(t *testing.T) {
	cfg := Config{Interval: interval}
	w := &answerer{
		link: sink{}, table: NewTouchTable(), clock: newClock(&cfg, time.Now(), func() {}), view: newFakeView(),
		log: &answerLog{}, drain: &drainer{},
	}
	w.table.attach(session.Session{ID: 1, Spec: session.Spec{Timeout: timeout}, Attachment: 1}, nil, mark{}, 0)
	if err := w.answer(&session.Heartbeat{Round: 1}, true); err != nil {
		t.Fatal(err)
	}
	swept := w.swept[:cap(w.swept)]
	if len(swept) == 0 || slices.ContainsFunc(swept, func(s sweptTouch) bool { return s.a != nil }) {
		t.Errorf("%d touches are kept: %v", len(swept), swept)
	}
}
