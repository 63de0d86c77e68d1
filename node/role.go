package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/dial"
)

// retryFraction of a heartbeat interval is how soon a node looks again at who leads, when nothing tells it to sooner.
const retryFraction = 5

// roles does one role after the other until ctx ends. Nothing is promoted or demoted in place: each term that this node
// leads has a tracker of its own, and each stream to a leader a relay of its own.
func (n *Node) roles(ctx context.Context) error {
	for ctx.Err() == nil {
		var err error
		switch {
		case n.watchdog.Check() != nil:
			n.awaitEnd(ctx)
		case n.consensus.raft.State() == raft.Leader:
			err = n.lead(ctx)
		default:
			err = n.follow(ctx)
		}
		if err != nil && ctx.Err() == nil {
			n.logger.Debug("role ended", "error", err)
			n.complain(err)
		}
		n.pause(ctx)
	}
	return nil
}

// complain tells the operator of a role that cannot be taken up, once in a while; changes of leader are no reason.
func (n *Node) complain(err error) {
	if errors.Is(err, session.ErrNoLeader) || errors.Is(err, session.ErrNotLeader) ||
		errors.Is(err, leader.ErrTermOver) {
		return
	}
	n.complaints.Do(func() { n.logger.Warn("role ended, and is tried again", "error", err) })
}

// pause waits a little, less when leadership has changed.
func (n *Node) pause(ctx context.Context) {
	timer := time.NewTimer(n.cfg.Sessions.HeartbeatInterval / retryFraction)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.consensus.watch.changed:
	case <-ctx.Done():
	}
}

// lead begins a term with a command of its own (R5) and runs its tracker, and this node's relay to it, until the term
// ends.
func (n *Node) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, err := n.beginTerm(ctx)
	if err != nil {
		return err
	}
	cfg := leader.Config{
		Node:           n.cfg.Node,
		Term:           begun.Term,
		After:          n.rounds.after(begun.Term),
		Interval:       n.cfg.Sessions.HeartbeatInterval,
		ExpiryInterval: n.cfg.Sessions.ExpiryInterval,
		Limits:         n.cfg.Sessions.Limits(),
		Room:           n.state.Room,
		Written:        n.written,
		Logger:         n.logger,
		Clock:          n.options.Clock,
		Ask:            n.askStream,
	}
	if heard := n.options.Heard; heard != nil {
		cfg.Heard = func(from session.Node, sent time.Time) { heard(begun.Term, from, sent) }
	}
	if expires := n.options.Expires; expires != nil {
		cfg.Expires = func(found []session.Closing) { expires(begun.Term, found) }
	}
	tracker := leader.New(cfg, n.proposer, n.view)
	frozen, cancelObserving := n.state.Observe(tracker)
	defer cancelObserving()

	n.logger.Info("leads", "term", begun.Term)
	if n.options.Leads != nil {
		n.options.Leads(begun.Term)
	}
	n.setTracker(tracker)
	defer n.setTracker(nil)
	var wg sync.WaitGroup
	wg.Go(func() { n.followSelf(ctx, tracker) })
	wg.Go(func() { n.takeIn(ctx, tracker) })
	wg.Go(func() { n.setCapacity(ctx, tracker) })
	wg.Go(func() { n.yieldUnanswered(ctx, tracker) })
	wg.Go(func() {
		n.watchLeadership(ctx)
		cancel()
	})
	err = tracker.Run(ctx, frozen)
	cancel()
	wg.Wait()
	n.rounds = ledRounds{begun.Term, tracker.Newest()}
	return err
}

// ledRounds is the newest round of a term that this process led. A leader that stalls for less than it takes the others
// to elect leads the same term again, with another tracker. No other process does.
type ledRounds struct{ term, newest uint64 }

// after is the round that a tracker of a term counts on from.
func (l ledRounds) after(term uint64) uint64 {
	if l.term != term {
		return 0
	}
	return l.newest
}

var errRefused = errors.New("the state machine refused the term's first command")

// beginTerm proposes the command that shows this node its term. The first one of a cluster brings the key of its
// credentials.
func (n *Node) beginTerm(ctx context.Context) (session.Result, error) {
	var begin session.Configure
	var nonce [8]byte
	if _, err := rand.Read(begin.Key[:]); err != nil {
		return session.Result{}, err
	}
	if _, err := rand.Read(nonce[:]); err != nil {
		return session.Result{}, err
	}
	begin.Nonce = binary.LittleEndian.Uint64(nonce[:])
	result, err := n.proposer.Propose(ctx, begin)
	switch {
	case err != nil:
		return session.Result{}, err
	case result.Err != nil:
		return session.Result{}, errors.Join(errRefused, result.Err)
	}
	return result, nil
}

// watchLeadership returns when this node leads no more, or stalls. A tracker finds out by its own rounds too (R3), when
// leadership is lost and regained between two looks.
func (n *Node) watchLeadership(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.Sessions.HeartbeatInterval / retryFraction)
	defer ticker.Stop()
	for n.consensus.raft.State() == raft.Leader && n.watchdog.Check() == nil {
		select {
		case <-n.consensus.watch.changed:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// followSelf keeps this node's relay on its own tracker until ctx ends.
func (n *Node) followSelf(ctx context.Context, tracker *leader.Tracker) {
	for ctx.Err() == nil {
		err := n.followPipe(ctx, tracker)
		if ctx.Err() == nil {
			n.logger.Debug("link to the own tracker ended", "error", err)
			n.pause(ctx)
		}
	}
}

func (n *Node) followPipe(ctx context.Context, tracker *leader.Tracker) error {
	p := newPipe(ctx)
	var wg sync.WaitGroup
	var served error
	wg.Go(func() { served = errors.Join(tracker.Follow(p.ctx, n.hello(), leaderEnd{p}), p.Close()) })
	err := errors.Join(n.server.Follow(learnerEnd{p}), p.Close())
	wg.Wait()
	return errors.Join(err, served)
}

// follow keeps a relay on the leader that Raft names, over one stream, until the stream ends or Raft names another.
func (n *Node) follow(ctx context.Context) (err error) {
	_, id := n.consensus.raft.LeaderWithID()
	leads, ok := n.peer(id)
	if !ok || leads.Node == n.cfg.Node {
		return session.ErrNoLeader
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		n.watchLeader(ctx, id)
		cancel()
	})
	defer wg.Wait()
	defer cancel()
	link, err := dial.Peer(ctx, n.peerDial(leads.Peer), n.hello())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, link.Close()) }()
	return n.server.Follow(link)
}

// watchLeader returns when Raft names another leader, or this node stalls.
func (n *Node) watchLeader(ctx context.Context, id raft.ServerID) {
	ticker := time.NewTicker(n.cfg.Sessions.HeartbeatInterval / retryFraction)
	defer ticker.Stop()
	for {
		if _, now := n.consensus.raft.LeaderWithID(); now != id || n.watchdog.Check() != nil {
			return
		}
		select {
		case <-n.consensus.watch.changed:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// hello names the next stream of this process (T6).
func (n *Node) hello() session.Hello { return n.helloOf(n.streams.Add(1)) }

// newestStream names the newest stream of this process.
func (n *Node) newestStream() session.Hello { return n.helloOf(n.streams.Load()) }

func (n *Node) helloOf(stream uint64) session.Hello {
	return session.Hello{
		Node: n.cfg.Node, Directory: uint64(n.admission.mine), Incarnation: n.dir.Incarnation, Stream: stream,
		LogVersion: session.LogVersion,
	}
}

// peer is the node behind one of Raft's servers.
func (n *Node) peer(id raft.ServerID) (config.Peer, bool) {
	node, _, err := nodeOfServer(id)
	if err != nil {
		return config.Peer{}, false
	}
	p := n.peerOf(node)
	return p, p.Node == node
}

// peerOf returns the zero Peer for a node that is none.
func (n *Node) peerOf(node session.Node) config.Peer {
	for _, p := range n.cfg.Peers {
		if p.Node == node {
			return p
		}
	}
	return config.Peer{}
}
