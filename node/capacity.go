package node

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"holdfast/leader"
	"holdfast/session"
)

// proposeValues proposes the cluster's values while this node leads: the version of the log's entries, the bounds of
// the state and the feature level. It looks at once when a member's stream opens, because clients of a new cluster wait
// for the tree. It looks again and again besides, because a proposal may fail, and a former leader's proposal may come
// after it.
func (t *terms) proposeValues(ctx context.Context, term uint64, tracker *leader.Tracker) {
	ticker := t.options.pulse.Ticker(t.cfg.Sessions.HeartbeatInterval)
	defer ticker.Stop()
	for {
		t.setLogVersion(ctx, min(tracker.LogVersion(), session.AutoLogVersion))
		t.setCapacity(ctx, tracker.LogVersion())
		t.setTree(ctx, term, tracker)
		select {
		case <-ticker.C:
		case <-tracker.Joined():
		case <-ctx.Done():
			return
		}
	}
}

// setLogVersion has the log say which version of entries every member reads, once that is more than the log says. Then
// a later leader writes such entries while members are down, which cannot tell it (M1).
func (t *terms) setLogVersion(ctx context.Context, version uint32) {
	if version < session.FirstLogVersion || version <= t.view.LogVersion() {
		return
	}
	if _, err := t.consensus.proposer.Propose(ctx, session.SetLogVersion{Version: version}); err != nil {
		t.options.Logger.Debug("log version not set", "error", err)
		return
	}
	t.options.Logger.Info("every member reads log entries of a newer form", "version", version)
}

// setCapacity has the log say this node's bounds (O4). Releases before session.LogVersion 1 do not read an entry with
// bounds: a cluster's first bounds wait until every member is known to read them. Later bounds need not wait, because
// every member has read the first.
func (t *terms) setCapacity(ctx context.Context, version uint32) {
	want := t.cfg.Sessions.Capacity()
	if !introduces(t.view.Usage().Capacity, want, version) {
		return
	}
	if _, err := t.consensus.proposer.Propose(ctx, session.SetCapacity{Capacity: want}); err != nil {
		t.options.Logger.Debug("capacity not set", "error", err)
		return
	}
	t.options.Logger.Info("capacity set", "max_sessions", want.MaxSessions, "max_state_bytes", want.MaxBytes)
}

// introduces reports whether a leader proposes the capacity that it wants, where now is the cluster's capacity and
// every member reads log entries of version.
func introduces(now, want session.Capacity, version uint32) bool {
	return now != want && (now != session.Capacity{} || version >= 1)
}

// An operator is warned at warnShare of a capacity, and again only after the use was below calmShare: sessions come and
// go around any single threshold.
const (
	warnShare = 0.8
	calmShare = 0.7
)

// fullness warns when a capacity is nearly used up. It belongs to one goroutine.
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
