package node

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// proposeCapacity has the log say this node's bounds (O4) while this node leads. It looks again in each heartbeat
// interval, because a proposal may fail. No proposal of a former leader comes after one of this term.
func (t *terms) proposeCapacity(ctx context.Context) {
	want := t.cfg.Sessions.Capacity()
	ticker := t.options.pulse.Ticker(t.cfg.Sessions.HeartbeatInterval)
	defer ticker.Stop()
	for {
		if t.view.Usage().Capacity != want {
			t.setCapacity(ctx, want)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *terms) setCapacity(ctx context.Context, want session.Capacity) {
	if _, err := t.consensus.proposer.Propose(ctx, session.SetCapacity{Capacity: want}); err != nil {
		t.options.Logger.Debug("capacity not set", "error", err)
		return
	}
	t.options.Logger.Info("capacity set", "max_sessions", want.MaxSessions, "max_state_bytes", want.MaxBytes)
}

// An operator is warned at warnShare of a capacity, and again only after the use was below calmShare: sessions come and
// go around any single threshold.
const (
	warnShare = 0.8
	calmShare = 0.7
)

// fullness warns when a capacity is nearly used up. It belongs to one goroutine.
type fullness struct {
	of string
	// refused says what is refused when there is no room.
	refused string
	// read returns which share is used, and figures for the log.
	read   func() (share float64, figures []any)
	warned bool
}

func (f *fullness) look(logger hclog.Logger) {
	switch share, figures := f.read(); {
	case !f.warned && share >= warnShare:
		f.warned = true
		logger.Warn("little room is left: "+f.refused+" are refused when there is none", append(figures, "of", f.of)...)
	case f.warned && share < calmShare:
		f.warned = false
		logger.Info("there is room again", append(figures, "of", f.of)...)
	}
}

// roomForSessions watches the room of sessions.
func roomForSessions(of string, read func() session.Usage) fullness {
	return fullness{of: of, refused: "opens", read: func() (float64, []any) {
		u := read()
		return u.Share(), []any{
			"sessions", u.Sessions, "max_sessions", u.Capacity.MaxSessions, "bytes", u.Bytes, "max_state_bytes", u.Capacity.MaxBytes,
		}
	}}
}

// roomForTree watches the room of the tree.
func roomForTree(read func() clientport.TreeStatus) fullness {
	return fullness{of: "tree", refused: "writes that add to it", read: func() (float64, []any) {
		s := read()
		return float64(s.Bytes) / float64(max(s.Limit, 1)), []any{
			"entries", s.Entries, "bytes", s.Bytes, "max_tree_bytes", s.Limit,
		}
	}}
}
