package learner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestN1Mode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := readOnlyConfig()
		cfg.Local = false
		w := newWorldOf(t, cfg)
		w.is(session.ModeNoLeader)
		time.Sleep(time.Minute)
		w.is(session.ModeNoLeader) // it has applied nothing
		w.view.apply(7)
		w.is(session.ModeReadOnly) // it has restored a state, and has never heard of a good round
		w.follow()
		w.is(session.ModeReadOnly)
		w.good()
		w.is(session.ModeReadWrite)

		time.Sleep(jeopardyIntervals * interval)
		w.is(session.ModeReadWrite)
		time.Sleep(time.Nanosecond)
		w.is(session.ModeNoLeader)
		time.Sleep(readOnlyAfter - jeopardyIntervals*interval - 1)
		w.is(session.ModeNoLeader)
		time.Sleep(time.Nanosecond)
		w.is(session.ModeReadOnly)
		w.good()
		w.is(session.ModeReadWrite)

		w.leader.end()
		synctest.Wait()
		w.is(session.ModeNoLeader)
		w.follow()
		w.is(session.ModeReadWrite) // the newest good round is not old

		time.Sleep(readOnlyAfter + 1)
		w.is(session.ModeReadOnly)
		w.server.Stop()
		w.is(session.ModeNoLeader)
	})
}

func TestN1NeverReadOnly(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"without the setting":    func(c *Config) { c.ReadOnly = false },
		"before its admission":   func(c *Config) { c.Admitted = func() bool { return false } },
		"within three intervals": func(c *Config) { c.ReadOnlyAfter, c.Interval = 0, 30*time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				cfg := readOnlyConfig()
				change(&cfg)
				w := newWorldOf(t, cfg)
				w.view.apply(7)
				time.Sleep(time.Minute)
				w.is(session.ModeNoLeader)
				if _, err := w.server.Find(t.Context(), 1, session.ReadOptions{AllowReadOnly: true}); !errors.Is(err,
					session.ErrNoLeader) {
					t.Errorf("a read: %v, want %v", err, session.ErrNoLeader)
				}
			})
		})
	}
}

// pausing has a server whose process a test can stop: the stall detector looks only while run runs.
func pausing(t *testing.T) (s *Server, run func(d time.Duration), is func(want session.Mode)) {
	t.Helper()
	cfg := readOnlyConfig()
	cfg.Local = false
	view := newFakeView()
	view.apply(7)
	s = NewServer(cfg, view)
	run = func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(look) {
			s.clock.checkedNow()
		}
		s.clock.checkedNow()
	}
	is = func(want session.Mode) {
		t.Helper()
		if got := s.State().Mode; got != want {
			t.Errorf("is %v, want %v", got, want)
		}
	}
	return s, run, is
}

// N1: time before Run does not make a node read-only: the node is restoring its state, and cannot learn of good rounds.
func TestN1QuietCountsFromRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, run, is := pausing(t)
		run(time.Minute)
		is(session.ModeNoLeader)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Run(ctx) })
		synctest.Wait()
		time.Sleep(readOnlyAfter)
		is(session.ModeNoLeader)
		time.Sleep(time.Nanosecond)
		is(session.ModeReadOnly)
		cancel()
		wg.Wait()
	})
}

// N1: time in which the process did not run does not make the node read-only, even before anything has looked for the
// stall. Heartbeats of good rounds may wait in a buffer.
func TestN1QuietCountsFromTheEndOfAStall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, run, is := pausing(t)
		s.modeFacts.begin(s.clock.checkedNow())
		run(readOnlyAfter + look)
		is(session.ModeReadOnly)
		time.Sleep(interval + 1)
		is(session.ModeNoLeader) // before the stall detector looked
		if _, err := s.Find(t.Context(), 1, session.ReadOptions{AllowReadOnly: true}); !errors.Is(err,
			session.ErrNoLeader) {
			t.Errorf("a read when it runs again: %v, want %v", err, session.ErrNoLeader)
		}
		run(readOnlyAfter)
		is(session.ModeNoLeader)
		run(look)
		is(session.ModeReadOnly)
		time.Sleep(interval)
		is(session.ModeReadOnly) // an interval is no stall
	})
}
