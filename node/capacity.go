package node

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/leader"
	"holdfast/session"
)

// setCapacity has the cluster take this node's bounds while it leads (O4). It looks again and again, because a proposal
// may fail, and one of a former leader may come after it. The bounds are an entry that releases before
// session.LogVersion 1 do not read: the first of a cluster waits until every member is known to read it, and later ones
// need not, as all members have read one.
func (n *Node) setCapacity(ctx context.Context, tracker *leader.Tracker) {
	ticker := time.NewTicker(n.cfg.Sessions.HeartbeatInterval)
	defer ticker.Stop()
	want := n.cfg.Sessions.Capacity()
	for {
		if introduces(n.state.Usage().Capacity, want, tracker.LogVersion()) {
			if _, err := n.proposer.Propose(ctx, session.SetCapacity{Capacity: want}); err != nil {
				n.logger.Debug("capacity not set", "error", err)
			} else {
				n.logger.Info("capacity set", "max_sessions", want.MaxSessions, "max_state_bytes", want.MaxBytes)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// introduces reports whether a leader that wants a capacity is to propose it, where the cluster has one already and
// every member reads log entries of a version.
func introduces(now, want session.Capacity, version uint32) bool {
	return now != want && (now != session.Capacity{} || version >= 1)
}

// written returns the newest form of log entries that this node has applied. A cluster gets its first bounds as soon as
// every member reads entries of version 1.
func (n *Node) written() uint32 {
	if n.state.Usage().Capacity == (session.Capacity{}) {
		return 0
	}
	return 1
}

// From which share of a capacity on an operator is warned, and below which one the next warning may come: sessions come
// and go about any threshold.
const (
	warnShare = 0.8
	calmShare = 0.7
)

// fullness warns of something that fills up. It belongs to one goroutine.
type fullness struct {
	of     string
	read   func() session.Usage
	warned bool
}

func (f *fullness) look(logger hclog.Logger) {
	u := f.read()
	switch share := u.Share(); {
	case !f.warned && share >= warnShare:
		f.warned = true
		logger.Warn("little room is left: opens are refused when there is none", "of", f.of, "sessions", u.Sessions,
			"max_sessions", u.Capacity.MaxSessions, "bytes", u.Bytes, "max_state_bytes", u.Capacity.MaxBytes)
	case f.warned && share < calmShare:
		f.warned = false
		logger.Info("there is room again", "of", f.of, "sessions", u.Sessions, "bytes", u.Bytes)
	}
}
