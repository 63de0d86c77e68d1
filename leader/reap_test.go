package leader_test

import (
	"context"
	"testing"
	"time"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/tree"
)

// tended is a tracker whose tree has an entry that is due at a time of the log clock.
func tended(w *world, due, logClock time.Duration, gone *bool) *leader.Tracker {
	return leader.New(leader.Config{
		Node: 1, Term: term, Interval: beat, ExpiryInterval: width, Limits: session.Limits{Min: long, Max: 40 * time.Second},
		Tree: leader.Tree{RunningClock: logClock, Reap: func(clock time.Duration) leader.Reaping {
			switch {
			case *gone:
				return leader.Reaping{}
			case clock < due:
				return leader.Reaping{Waits: true}
			default:
				return leader.Reaping{Due: &session.TreeCommand{Encoded: []byte{1}, Weight: 1}, Waits: true}
			}
		}},
	}, w.log, w.view)
}

// D3, D5: the leader removes entries that are due on the log clock, which continues that of the former leaders, and
// advances the log clock each minute while anything has a due time.
func TestD5TheLeaderReaps(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		gone := false
		w.tracker = tended(w, 1000*time.Second, 850*time.Second, &gone)
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			switch c.(type) {
			case session.TreeCommand:
				gone = true
				return session.Result{}, nil, true
			case session.Tick:
				return session.Result{}, nil, true
			default:
				return session.Result{}, nil, false
			}
		})
		w.join(1, prompt)
		defer w.run()()
		w.at(10 * time.Minute)
		reaps, at := proposed[session.TreeCommand](w.log)
		if len(reaps) != 1 || at[0] < 150*time.Second || at[0] > 152*time.Second {
			w.t.Errorf("%d commands at %v, want one when the log clock has gone 150 s", len(reaps), at)
		}
		ticks, at := proposed[session.Tick](w.log)
		if len(ticks) != 2 || at[0] < 60*time.Second || at[1] > 123*time.Second {
			w.t.Errorf("%d ticks at %v, want one each minute until the entry is gone", len(ticks), at)
		}
	})
}

// D5: the leader removes all due entries, one log entry with as many as it may hold after the other. Entries that come
// due during a slow log entry are removed right after it, and not an interval later.
func TestD5TheLeaderReapsUntilNothingIsDue(t *testing.T) {
	const took = 1500 * time.Millisecond
	inBubble(t, voters(1), func(w *world) {
		left := 10
		w.tracker = leader.New(leader.Config{
			Node: 1, Term: term, Interval: beat, ExpiryInterval: width,
			Limits: session.Limits{Min: long, Max: 40 * time.Second},
			Tree: leader.Tree{Reap: func(time.Duration) leader.Reaping {
				if left == 0 {
					return leader.Reaping{}
				}
				return leader.Reaping{Due: &session.TreeCommand{Encoded: []byte{1}, Weight: 1}, More: left > 1, Waits: true}
			}},
		}, w.log, w.view)
		w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
			if _, is := c.(session.TreeCommand); !is {
				return session.Result{}, nil, false
			}
			if left--; left == 0 { // the last one takes long, and another entry comes due
				time.Sleep(took)
				left = 1
				w.log.decides(func(_ context.Context, c session.Command) (session.Result, error, bool) {
					_, is := c.(session.TreeCommand)
					left = 0
					return session.Result{}, nil, is
				})
			}
			return session.Result{}, nil, true
		})
		w.join(1, prompt)
		defer w.run()()
		w.at(10 * time.Second)
		_, at := proposed[session.TreeCommand](w.log)
		if len(at) != 11 || at[9] != at[0] || at[10] != at[9]+took {
			w.t.Errorf("commands at %v, want ten at once and one more when the last of them is applied, %v later", at, took)
		}
	})
}

// D3: the log clock stands while the accountable clock does.
func TestD3TheLogClockStandsWithoutAQuorum(t *testing.T) {
	inBubble(t, voters(1, 2, 3), func(w *world) {
		gone := true
		w.tracker = tended(w, 0, time.Hour, &gone)
		w.join(1, prompt)
		m := w.join(2, prompt)
		defer w.run()()
		w.at(10 * time.Second)
		if got := w.tracker.RunningClock(); got < time.Hour+9*time.Second || got > time.Hour+10*time.Second {
			w.t.Errorf("after 10 s the log clock shows %v, want an hour more", got)
		}
		m.replies(func(*session.Heartbeat) *session.Answer { return nil })
		w.at(60 * time.Second)
		if got := w.tracker.RunningClock(); got > time.Hour+12*time.Second {
			w.t.Errorf("without a quorum since 10 s the log clock shows %v", got)
		}
	})
}

// U2: the ends of sessions with many ephemerals are parted, so that no entry has more work than its bound but for one
// session.
func TestU2EndsAreParted(t *testing.T) {
	inBubble(t, voters(1), func(w *world) {
		w.weight = func(session.ID) int { return tree.MaxWeight * 2 / 5 }
		w.join(1, prompt)
		const all = 7
		for id := range session.ID(all) {
			w.has(id+1, 1)
		}
		defer w.run()()
		w.at(30 * time.Second)
		ends, _ := proposed[session.CloseSessions](w.log)
		n := 0
		for _, c := range ends {
			n += len(c.Sessions)
			if len(c.Sessions) > 2 || c.Weight != len(c.Sessions)*(1+tree.MaxWeight*2/5) {
				w.t.Errorf("a command ends %d sessions with weight %d", len(c.Sessions), c.Weight)
			}
		}
		if n != all || len(ends) != 4 {
			w.t.Errorf("%d commands end %d sessions, want 4 for %d", len(ends), n, all)
		}
	})
}
