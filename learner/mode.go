package learner

import (
	"sync/atomic"
	"time"

	"holdfast/session"
)

// modeFacts holds the facts that decide this node's mode (N1 node mode). Its methods take no lock, because every answer
// to a client carries the mode. Safe for concurrent use.
type modeFacts struct {
	beats *heartbeats
	clock *clock
	view  Progress
	// allowed, after and admitted are ReadOnly, ReadOnlyAfter and Admitted of the configuration.
	allowed  bool
	after    time.Duration
	admitted func() bool
	// began is the moment at which Run began, plus 1 ns; 0 before that.
	began atomic.Int64
	// follows is set while there is a leader, stopping once the node refuses requests.
	follows, stopping atomic.Bool
	drain             drainer
}

func newModeFacts(cfg *Config, beats *heartbeats, clock *clock, view Progress) *modeFacts {
	return &modeFacts{
		beats: beats, clock: clock, view: view,
		allowed: cfg.ReadOnly, after: cfg.ReadOnlyAfter, admitted: cfg.Admitted,
	}
}

// begin records that Run begins at now.
func (s *modeFacts) begin(now time.Duration) { s.began.Store(int64(now) + 1) }

// mode returns the node's mode at a moment (N1).
func (s *modeFacts) mode(now time.Duration) session.Mode {
	quiet, ever := s.beats.quiet(now)
	switch {
	case ever && quiet <= s.beats.jeopardyAfter() && s.follows.Load():
		return session.ModeReadWrite
	case s.allowed && s.silence(now) > max(s.after, s.beats.jeopardyAfter()) && s.mayRead():
		return session.ModeReadOnly
	default:
		return session.ModeNoLeader
	}
}

// silence returns the time in which the node learned of no good round although it could have: Run had begun, and the
// process has run since without a stall. While the node restores its state or stalls, rounds may be good, and the
// heartbeats that say so may wait in a buffer.
func (s *modeFacts) silence(now time.Duration) time.Duration {
	began := s.began.Load()
	if began == 0 {
		return 0
	}
	quiet, _ := s.beats.quiet(now)
	return min(quiet, now-time.Duration(began-1), now-s.clock.stalls.runs(now))
}

// mayRead reports whether the node has a state of this cluster's log and may show it. A stopping node sends its clients
// to other nodes.
func (s *modeFacts) mayRead() bool {
	return !s.stopping.Load() && s.view.AppliedIndex() > 0 && (s.admitted == nil || s.admitted())
}

// readOnly reports whether the node is read-only now.
func (s *modeFacts) readOnly() bool {
	return s.allowed && s.mode(s.clock.now()) == session.ModeReadOnly
}
