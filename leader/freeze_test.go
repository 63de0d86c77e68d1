package leader_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"holdfast/leader"
	"holdfast/session"
)

// logTime is the time of a state in tests.
type logTime struct {
	mu   sync.Mutex
	time session.LogTime
	kept map[session.ID]time.Duration
}

func (l *logTime) now() session.LogTime {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.time
}

func (l *logTime) until(id session.ID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept[id]
}

// freezing gives the world a state that can be frozen. base is the running clock as the term begins.
func (w *world) freezing(base time.Duration) *logTime {
	l := &logTime{time: session.LogTime{Log: base}, kept: make(map[session.ID]time.Duration)}
	w.tracker = leader.New(leader.Config{
		Node: 1, Term: term, Interval: beat, ExpiryInterval: width,
		Limits: session.Limits{Min: long, Max: 40 * time.Second},
		Tree: leader.Tree{
			RunningClock: base, Now: l.now, Kept: l.until,
			Reap: func(time.Duration) leader.Reaping { return leader.Reaping{} },
		},
	}, w.log, w.view)
	return l
}

// apply applies an entry that changes the time of the state.
func (w *world) apply(l *logTime, change func(t *session.LogTime)) {
	l.mu.Lock()
	l.time = l.time.At(w.tracker.RunningClock())
	change(&l.time)
	l.mu.Unlock()
	w.tracker.Applied(w.log.newest(), term, nil)
}

func freeze(span time.Duration) func(t *session.LogTime) {
	return func(t *session.LogTime) { t.Freeze = &session.Freeze{Until: t.Running() + span} }
}

// expiresFrom fails unless the session lives until d, and has ended when a bucket of the queue has passed and a bucket
// that begins within it.
func (w *world) expiresFrom(d time.Duration, id session.ID) {
	w.t.Helper()
	w.at(d - 1)
	if _, ok := w.view.Session(id); !ok {
		w.t.Errorf("%v ended before %v", id, d)
	}
	w.at(d + 2*width)
	if _, ok := w.view.Session(id); ok {
		w.t.Errorf("%v did not end at %v", id, d)
	}
}

func thaw(t *session.LogTime) { t.Freeze = nil }

// Y3: in a freeze nothing comes due, and after it each session has its full timeout from the thaw on. So a client that
// was silent all the while has that long to come back.
func TestY3AFullTimeoutAfterTheThaw(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		l := w.freezing(time.Hour)
		w.join(1, prompt)
		w.join(2, prompt)
		w.join(3, prompt)
		w.has(5, 3)
		defer w.run()()
		w.at(3 * time.Second)
		w.apply(l, freeze(time.Minute))
		w.at(32 * time.Second)
		w.alive(5)
		w.apply(l, thaw)
		w.expiresFrom(36*time.Second, 5)
	})
}

// Y3: a freeze that nobody thaws ends at its bound, by a tick that the leader logs, and sessions count from the bound.
func TestY3TheBoundIsKept(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		l := w.freezing(time.Hour)
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			_, tick := c.(session.Tick)
			if tick {
				w.apply(l, func(*session.LogTime) {})
			}
			return session.Result{}, nil, tick
		})
		w.join(1, prompt)
		w.join(2, prompt)
		w.join(3, prompt)
		w.has(5, 3)
		defer w.run()()
		w.at(3 * time.Second)
		w.apply(l, freeze(10*time.Second))
		w.expiresFrom(17*time.Second, 5)
		ticks, at := proposed[session.Tick](w.log)
		if len(ticks) != 1 || at[0] < 13*time.Second || at[0] > 14*time.Second {
			t.Errorf("%d ticks at %v, want one within a second of the bound", len(ticks), at)
		}
	})
}

// Y3: a leader whose term begins in a freeze knows of it.
func TestY3ATermThatBeginsInAFreeze(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		l := w.freezing(time.Hour)
		l.time.Freeze = &session.Freeze{Until: time.Hour + 20*time.Second}
		w.join(1, prompt)
		w.join(2, prompt)
		w.join(3, prompt)
		w.has(5, 3)
		defer w.run()()
		w.at(19 * time.Second)
		w.alive(5)
		w.expiresFrom(24*time.Second, 5)
	})
}

// Y4: an extended session lives until its moment of the log clock, and a freeze puts the moment off. Others expire.
func TestY4ExtendedSessionsLive(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		l := w.freezing(time.Hour)
		l.kept[5] = time.Hour + 20*time.Second
		w.join(1, prompt)
		w.join(2, prompt)
		w.join(3, prompt)
		w.has(5, 3)
		w.has(6, 3)
		defer w.run()()
		w.expires(4250*ms, 6)
		w.at(10 * time.Second)
		w.apply(l, freeze(time.Minute))
		w.at(40 * time.Second)
		w.apply(l, thaw)
		w.expiresFrom(50*time.Second, 5)
		closes, _ := proposed[session.CloseSessions](w.log)
		if len(closes) != 2 || len(closes[1].Sessions) != 1 {
			t.Fatalf("proposed %+v", closes)
		}
		if c := closes[1].Sessions[0]; c.Credit != 0 || c.Late > 250*ms {
			t.Errorf("the certificate tells of %v credit, and %v late", c.Credit, c.Late)
		}
	})
}

// Y4: a cancelled extension keeps no silent session alive, nor does one that a shorter one replaces, wherever the
// leader has filed the session meanwhile.
func TestY4AnExtensionIsTakenBack(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		l := w.freezing(time.Hour)
		l.kept[5], l.kept[6] = time.Hour+20*time.Second, 2*time.Hour
		m := w.join(1, prompt)
		w.has(5, 1)
		w.has(6, 1)
		defer w.run()()
		w.at(10 * time.Second)
		w.alive(5, 6)
		l.mu.Lock()
		delete(l.kept, 5)
		l.kept[6] = time.Hour + 15*time.Second
		l.mu.Unlock()
		m.asks(session.Request{Seq: 1, Extend: &session.ExtendRequest{ID: 5}})
		m.asks(session.Request{Seq: 2, Extend: &session.ExtendRequest{ID: 6, For: 5 * time.Second}})
		w.at(10*time.Second + 2*width)
		if _, ok := w.view.Session(5); ok {
			t.Error("the session goes on, and its extension was taken back")
		}
		w.expiresFrom(15*time.Second, 6)
	})
}

// An operator's word goes to the log as it is.
func TestFreezeAndExtend(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.freezing(0)
		m := w.join(1, prompt)
		defer w.run()()
		w.at(beat)
		frozen := session.Request{Freeze: &session.FreezeRequest{For: time.Minute, By: "ops", Why: "work"}}
		m.asks(numberedAs(3, frozen))
		m.asks(session.Request{Seq: 4, Freeze: &session.FreezeRequest{}})
		m.asks(session.Request{Seq: 5, Extend: &session.ExtendRequest{ID: 5, For: time.Minute}})
		w.at(3 * beat)
		for seq := uint64(3); seq <= 5; seq++ {
			if r := m.replied(seq); r == nil || r.Err != nil || r.Index == 0 {
				t.Errorf("the reply is %+v", r)
			}
		}
		freezes, _ := proposed[session.FreezeExpiry](w.log)
		thaws, _ := proposed[session.ThawExpiry](w.log)
		extended, _ := proposed[session.ExtendSession](w.log)
		if len(freezes) != 1 || freezes[0].For != time.Minute || freezes[0].By != "ops" || freezes[0].Why != "work" ||
			len(thaws) != 1 || len(extended) != 1 || extended[0] != (session.ExtendSession{ID: 5, For: time.Minute}) {
			t.Errorf("proposed %+v, %+v, %+v", freezes, thaws, extended)
		}
	})
}

// numberedAs returns a request with a number.
func numberedAs(seq uint64, r session.Request) session.Request {
	r.Seq = seq
	return r
}
