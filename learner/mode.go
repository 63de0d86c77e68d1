package learner

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

// standing is what the mode of this node follows from (N1). Its methods take no lock, because every answer to a client
// tells the mode. Safe for concurrent use.
type standing struct {
	beats *heartbeats
	clock *clock
	view  Progress
	// allowed, after and admitted are ReadOnly, ReadOnlyAfter and Admitted of the configuration.
	allowed  bool
	after    time.Duration
	admitted func() bool
	// began is the moment at which Run began, plus 1 ns; 0: it has not begun.
	began atomic.Int64
	// follows is set while there is a leader to ask, stopping once the node refuses requests.
	follows, stopping atomic.Bool
	drain             drainer
}

func newStanding(cfg *Config, beats *heartbeats, clock *clock, view Progress) *standing {
	return &standing{
		beats: beats, clock: clock, view: view,
		allowed: cfg.ReadOnly, after: cfg.ReadOnlyAfter, admitted: cfg.Admitted,
	}
}

// begin notes that Run begins at now.
func (s *standing) begin(now time.Duration) { s.began.Store(int64(now) + 1) }

// mode returns what the node can do at a moment (N1).
func (s *standing) mode(now time.Duration) session.Mode {
	quiet, ever := s.beats.quiet(now)
	switch {
	case ever && quiet <= s.beats.jeopardyAfter() && s.follows.Load():
		return session.ModeReadWrite
	case s.allowed && s.unheard(now) > max(s.after, s.beats.jeopardyAfter()) && s.mayRead():
		return session.ModeReadOnly
	default:
		return session.ModeNoLeader
	}
}

// unheard returns how long the node has learned of no good round although it could have: it had begun to run, and its
// process has run without a stall since. While the node restored its state or stalled, rounds may have been good, and
// the heartbeats that tell so may still wait in a buffer.
func (s *standing) unheard(now time.Duration) time.Duration {
	began := s.began.Load()
	if began == 0 {
		return 0
	}
	quiet, _ := s.beats.quiet(now)
	return min(quiet, now-time.Duration(began-1), now-s.clock.stalls.runs(now))
}

// mayRead reports whether the node has a state of this cluster's log and may show it. A node that stops sends its
// clients to other nodes instead.
func (s *standing) mayRead() bool {
	return !s.stopping.Load() && s.view.AppliedIndex() > 0 && (s.admitted == nil || s.admitted())
}

// readOnly reports whether the node is read-only now.
func (s *standing) readOnly() bool {
	return s.allowed && s.mode(s.clock.now()) == session.ModeReadOnly
}
