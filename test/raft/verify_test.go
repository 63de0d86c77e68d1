package raft_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/proposer"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/peerport"
	"holdfast/tree"
)

const interval = 500 * time.Millisecond

// VerifyLeader asks observers too. With three voters and an observer, the leader is cut off from both other voters.
// VerifyLeader still reports that it leads, but Holdfast answers no read: its reads wait for a good round (R3 good
// rounds, R4 leadership needs a good round). As controls, reads are answered before the cut, and by the other side's
// leader.
func TestReadsDoNotTrustVerifyLeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 4, voters: 3})
		defer c.stop()
		leads := c.leader()
		term := c.lead(leads)
		defer term.stop()
		if err := term.read(leads, 5*time.Second); err != nil {
			t.Errorf("a read before the cut: %v", err)
		}

		observer := c.peers[3]
		for _, p := range c.others(leads) {
			if p != observer {
				c.cut(leads, p)
			}
		}
		// Answers to requests from before the cut may still come.
		time.Sleep(2 * time.Millisecond)
		if err := leads.VerifyLeader().Error(); err != nil {
			t.Fatalf("VerifyLeader says %v: the trap is gone", err)
		}
		if leads.State() != raft.Leader {
			t.Fatal("the leader has stepped down already: the trap is not sprung")
		}
		for _, through := range []*peer{leads, observer} {
			if err := term.read(through, 10*time.Second); err == nil {
				t.Errorf("a read through %s was answered by a leader that reaches no other voter", through.name)
			}
		}

		other := c.leader(leads)
		next := c.lead(other)
		defer next.stop()
		if err := next.read(other, 5*time.Second); err != nil {
			t.Errorf("a read on the other side: %v", err)
		}
	})
}

// rule is one leader's term: its tracker, and the learners of all nodes that reach it.
type rule struct {
	c       *cluster
	cancel  context.CancelFunc
	parts   sync.WaitGroup
	tracker atomic.Pointer[leader.Tracker]
	servers map[*peer]*learner.Server
	port    *peerport.Server
}

// lead begins a term as a node does: with a command of its own (R5 start of a tracker), a tracker, and a stream for
// each member.
func (c *cluster) lead(p *peer) *rule {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &rule{c: c, cancel: cancel, servers: map[*peer]*learner.Server{}}
	commands := proposer.New(proposer.Config{Logger: hclog.NewNullLogger()}, p.Raft)
	r.parts.Go(func() { _ = commands.Run(ctx) })
	begun, err := commands.Propose(ctx, session.Configure{
		Key: session.Key{1}, Level: session.FeatureLevel, Limits: tree.DefaultLimits(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	tracker := leader.New(leader.Config{
		Node: p.node, Term: begun.Term, Interval: interval, Limits: session.Limits{Min: time.Second, Max: time.Minute},
	}, commands, view{p})
	frozen, _ := p.state.Observe(tracker)
	r.tracker.Store(tracker)
	r.parts.Go(func() { _ = tracker.Run(ctx, frozen) })

	listener, err := p.host.Listen(p.peerAddress())
	if err != nil {
		c.t.Fatal(err)
	}
	r.port = peerport.New(peerport.PeerConfig{ClusterID: "c"}, r, nil)
	r.parts.Go(func() { _ = r.port.Serve(listener) })
	for _, one := range c.peers {
		now := one.state.Tree()
		server := learner.NewServer(learner.Config{
			Tree: learner.TreeState{Index: now.Index, Root: now.Root, Writers: now.Writers},
			Node: one.node, Interval: interval, CatchUpWait: time.Second, Try: func() []string { return nil },
			Logger: hclog.NewNullLogger(),
		}, view{one})
		one.state.Observe(server)
		r.servers[one] = server
		r.parts.Go(func() { _ = server.Run(ctx) })
		r.parts.Go(func() { r.follow(ctx, one, p.peerAddress()) })
	}
	c.eventually("the leader's own relay", 10*time.Second, func() bool { return r.servers[p].Ready() == nil })
	return r
}

// Follow passes the port's streams to the tracker.
func (r *rule) Follow(ctx context.Context, h session.Hello, l peerport.LeaderLink) error {
	return r.tracker.Load().Follow(ctx, h, l)
}

// follow keeps a node on the leader until ctx ends.
func (r *rule) follow(ctx context.Context, p *peer, address string) {
	for stream := uint64(1); ctx.Err() == nil; stream++ {
		link, err := dial.Peer(ctx, dial.PeerConfig{Address: address, ClusterID: "c", Dial: p.host.Dial},
			session.Hello{Node: p.node, Incarnation: 1, Stream: stream})
		if err == nil {
			_ = r.servers[p].Follow(link) // the test itself ends it
			_ = link.Close()
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// read lists sessions through a node, linearizably.
func (r *rule) read(through *peer, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := r.servers[through].List(ctx, session.Query{Size: 10})
	return err
}

func (r *rule) stop() {
	r.c.t.Helper()
	r.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.port.Stop(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		r.c.t.Errorf("stopping the peer port: %v", err)
	}
	r.parts.Wait()
}

func (p *peer) peerAddress() string { return p.name + ":7402" }

// view is the state that a node's roles read, as in package node.
type view struct{ *peer }

func (v view) Session(id session.ID) (session.Session, bool)         { return v.state.Session(id) }
func (v view) Certificate(id session.ID) (session.Certificate, bool) { return v.state.Certificate(id) }

func (v view) Deaths(before uint64, yield func(uint64, *session.Certificate) bool) uint64 {
	return v.state.Deaths(before, yield)
}

func (v view) Cluster() uint64                                     { return v.state.Cluster() }
func (v view) Credential(id session.ID) (session.Credential, bool) { return v.state.Credential(id) }

func (v view) Verify(id session.ID, c session.Credential) bool { return v.state.Verify(id, c) }
func (v view) Attachment() uint64                              { return v.state.Attachment() }
func (v view) ShownIndex() uint64                              { return v.state.ShownIndex() }
func (v view) AppliedIndex() uint64                            { return v.state.AppliedIndex() }
func (v view) DigestAt(index uint64) ([16]byte, bool)          { return v.state.DigestAt(index) }
func (v view) Term() uint64                                    { return v.CurrentTerm() }
func (v view) CommitIndex() uint64                             { return v.Raft.CommitIndex() }

func (v view) WaitApplied(ctx context.Context, index uint64) error {
	return v.state.WaitApplied(ctx, index)
}

func (v view) Ascend(after session.ID, yield func(session.Session) bool) {
	v.state.Frozen().Ascend(after, yield)
}

func (v view) Members() []session.Member {
	future := v.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	var members []session.Member
	for i, s := range future.Configuration().Servers {
		members = append(members, session.Member{Node: session.Node(i + 1), Voter: s.Suffrage == raft.Voter})
	}
	return members
}
