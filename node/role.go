package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/raftnet"
)

// retryFraction is the part of a heartbeat interval after which a node looks again at which node leads, unless
// something tells it earlier.
const retryFraction = 5

// roles is the role loop: this node leads, or follows the leader, or waits until it no longer stalls. It belongs to one
// goroutine.
type roles struct {
	interval  time.Duration
	pulse     session.Pulse
	logger    hclog.Logger
	watchdog  *watchdog.Watchdog
	roster    *roster
	consensus *consensus
	server    *learner.Server
	streams   *streams
	terms     *terms
	// dial returns how the peer port at an address is dialled.
	dial func(address string) dial.PeerConfig
	// link wraps links to leaders; nil: nothing does.
	link func(Link) Link
	// saw is told how far a leader's directory has come.
	saw func(raftnet.Directory, raftnet.Position)
	// complaints bounds the log lines about roles that end.
	complaints rate.Sometimes
}

// run takes one role after the other until ctx ends. Nothing is promoted or demoted in place: each term that this node
// leads has a tracker of its own, and each stream to a leader a relay of its own.
func (r *roles) run(ctx context.Context) error {
	for ctx.Err() == nil {
		var err error
		switch {
		case r.watchdog.Check() != nil:
			r.awaitEnd(ctx)
		case r.consensus.raft.State() == raft.Leader:
			err = r.terms.lead(ctx)
		default:
			err = r.follow(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.logger.Debug("role ended", "error", err)
			r.complain(err)
		}
		r.consensus.watch.pause(ctx, r.interval/retryFraction)
	}
	return nil
}

// complain warns at intervals of a role that cannot be taken. A change of leader is no reason to warn.
func (r *roles) complain(err error) {
	if errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrNotLeader) ||
		errors.Is(err, leader.ErrTermOver) {
		return
	}
	r.complaints.Do(func() { r.logger.Warn("role ended, and is tried again", "error", err) })
}

// awaitEnd waits until the node no longer stalls, or ctx ends.
func (r *roles) awaitEnd(ctx context.Context) {
	ticker := r.pulse.Ticker(r.watchdog.Period)
	defer ticker.Stop()
	for r.watchdog.Check() != nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow keeps a relay on the leader that Raft names, over one stream, until the stream ends or Raft names another
// leader.
func (r *roles) follow(ctx context.Context) (err error) {
	_, id := r.consensus.raft.LeaderWithID()
	leads, ok := r.roster.peerBehind(id)
	if !ok || leads.Node == r.roster.self {
		return session.ErrNoLeader
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		r.watchLeader(ctx, id)
		cancel()
	})
	defer wg.Wait()
	defer cancel()
	link, err := dial.Peer(ctx, r.dial(leads.Peer), r.streams.next())
	if err != nil {
		return err
	}
	_, directory, _ := nodeOfServer(id) // peerBehind has read it
	var to Link = &witnessedLink{
		Link: peerLink{link}, leader: leads.Node, saw: func(at raftnet.Position) { r.saw(directory, at) },
	}
	if r.link != nil {
		to = r.link(to)
	}
	to = r.terms.options.traces.toLeader(to)
	defer func() { err = errors.Join(err, to.Close()) }()
	return r.server.Follow(to)
}

// watchLeader returns when Raft names another leader, or this node stalls.
func (r *roles) watchLeader(ctx context.Context, id raft.ServerID) {
	ticker := r.pulse.Ticker(r.interval) // in case that a signal was lost
	defer ticker.Stop()
	for {
		if _, now := r.consensus.raft.LeaderWithID(); now != id || r.watchdog.Check() != nil {
			return
		}
		select {
		case <-r.consensus.watch.changed:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
