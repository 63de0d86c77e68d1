package learner

import (
	"context"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// standing is what the mode of a node follows from (N1). It takes no lock: each answer tells the mode. Safe for
// concurrent use.
type standing struct {
	// good is when the newest good round was learnt of, as 1 ns + a moment on the table's clock; 0: none was. began is
	// when Run did, as good is.
	good, began atomic.Int64
	// interval is the newest leader's.
	interval atomic.Int64
	// follows says that there is a leader to ask, stopping that the node refuses requests.
	follows, stopping atomic.Bool
}

func (s *standing) heardGood(now time.Duration) { s.good.Store(int64(now) + 1) }

func (s *standing) begin(now time.Duration) { s.began.Store(int64(now) + 1) }

// quiet returns for how long no good round was learnt of, since the process began at least; ever is false when none
// ever was.
func (s *standing) quiet(now time.Duration) (quiet time.Duration, ever bool) {
	good := s.good.Load()
	return now - time.Duration(max(good-1, 0)), good > 0
}

// mode returns what the node can do at a moment (N1).
func (s *Server) mode(now time.Duration) session.Mode {
	quiet, ever := s.standing.quiet(now)
	switch {
	case ever && quiet <= s.jeopardyAfter() && s.standing.follows.Load():
		return session.ModeReadWrite
	case s.cfg.ReadOnly && s.unheard(now) > max(s.cfg.ReadOnlyAfter, s.jeopardyAfter()) && s.mayRead():
		return session.ModeReadOnly
	default:
		return session.ModeNoLeader
	}
}

// unheard returns for how long no good round was learnt of while the node could have: since it runs, and its process
// has run without a stall. While it restored its state, or did not run, rounds may have been good, and their word may
// wait in a buffer now.
func (s *Server) unheard(now time.Duration) time.Duration {
	began := s.standing.began.Load()
	if began == 0 {
		return 0
	}
	quiet, _ := s.standing.quiet(now)
	return min(quiet, now-time.Duration(began-1), now-s.stalls.runs(now))
}

// mayRead reports whether the node has a state of this cluster's log to show, and shows it: one that stops sends its
// clients elsewhere.
func (s *Server) mayRead() bool {
	return !s.standing.stopping.Load() && s.view.AppliedIndex() > 0 && (s.cfg.Admitted == nil || s.cfg.Admitted())
}

// jeopardyAfter is how long without a good round puts clients in jeopardy (S4).
func (s *Server) jeopardyAfter() time.Duration { return jeopardyIntervals * s.interval() }

// readOnly reports whether the node is read-only now.
func (s *Server) readOnly() bool {
	return s.cfg.ReadOnly && s.mode(time.Since(s.table.base)) == session.ModeReadOnly
}

// State returns what the node can do now, and the index of what it has shown until now (N4). It takes no lock and
// allocates nothing: nor may what Config.Admitted is.
func (s *Server) State() session.NodeState {
	return session.NodeState{Node: s.cfg.Node, Mode: s.mode(time.Since(s.table.base)), Index: s.view.ShownIndex()}
}

// reach waits for this node to have applied what a client has seen, for a bounded time: then it is LAGGING (N4).
func (s *Server) reach(ctx context.Context, seen uint64) error {
	if s.view.AppliedIndex() >= seen {
		return nil
	}
	return s.waitApplied(ctx, seen)
}

// mayResume refuses at once what a read-only node would refuse later (N2), and waits for what the client has seen (N4).
// No state that a client has seen elsewhere is newer than what this node has of a local session: that would otherwise
// end for want of a leader (L1).
func (s *Server) mayResume(ctx context.Context, r session.ResumeRequest) error {
	switch {
	case s.local.decides(r.Token.ID):
		return nil
	case s.readOnly() && !s.local.has(r.Token.ID):
		return session.ErrReadOnly
	default:
		return s.reach(ctx, r.Seen)
	}
}

// interval is that of the leader which was heard last, or the own one before any was (R1). It takes no lock.
func (s *Server) interval() time.Duration { return time.Duration(s.standing.interval.Load()) }
