package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/transport/gate"
)

// What the herd's cluster takes for an entry, and how many moves one holds: 24,000 in a second. A node on a real disk,
// busy with nothing else, does more than 20,000 (docs/benchmarks.md).
const (
	herdCommit   = 4 * time.Millisecond
	herdBatch    = 96
	herdTerm     = 7
	herdInterval = 500 * time.Millisecond
)

// herdCluster is a cluster of the nodes' own parts: the state machine, the leader's tracker, on node 1, learners, and
// the gates of the client ports. Consensus and the network are left out: an entry takes herdCommit, and all nodes share
// what has been applied.
type herdCluster struct {
	t         *testing.T
	state     *fsm.State
	tracker   *leader.Tracker
	nodes     map[session.Node]*herdNode
	proposals chan *herdProposal
	index     uint64          // of the newest entry; of one goroutine at a time: first who opens, then commit
	ctx       context.Context //nolint:containedctx // the cluster's life
	cancel    context.CancelFunc
	gate      gate.Config
	ended     sync.WaitGroup
}

// herdNode is a node that lives. gate is what every resume and touch passes, as on the client port.
type herdNode struct {
	server *learner.Server
	gate   *gate.Gate
	// admitted are the moments at which resumes were admitted; asked counts all of them. Of the goroutine that drives
	// the herd.
	admitted []time.Duration
	asked    int
}

// flood has the node asked by clients that do not come back: by connections that then end, and by unary calls.
func (n *herdNode) flood(trial herdTrial) {
	now := time.Now()
	for i := range trial.flood {
		p := n.gate.Reservations(herdVisitor(), 1)
		_ = p.Admit(now, gate.Arrival{Kind: gate.Resumes, Session: session.ID(i + 1)})
		defer p.Leave()
	}
	for range trial.calls {
		_ = n.gate.Admit(now, gate.Resumes, 1, herdVisitor())
	}
}

type herdProposal struct {
	command session.Command
	done    chan session.Result
}

func herdAddress(n session.Node) string { return fmt.Sprintf("n%d:7400", n) }

// newHerdCluster returns a cluster of three nodes that has so many sessions, each node's share, and of which node 3 has
// just died. The test defers stop.
func newHerdCluster(t *testing.T, sessions int, budgets gate.Config) (*herdCluster, []session.Session) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &herdCluster{
		t: t, nodes: map[session.Node]*herdNode{}, proposals: make(chan *herdProposal, sessions), cancel: cancel,
		state: fsm.New(fsm.Config{Logger: hclog.NewNullLogger(), Fatal: func(err error) {
			t.Errorf("the state is halted: %v", err)
		}}),
	}
	c.apply(session.Configure{Key: session.Key{1}})
	var opened []session.Session
	for len(opened) < sessions {
		var batch []session.Command
		for i := len(opened); i < sessions && len(batch) < 1000; i++ {
			batch = append(batch, session.OpenSession{
				Node: session.Node(i%3 + 1), MS: uint64(i), Timeout: herdTimeout,
				RequestID: session.RequestID{byte(i), byte(i >> 8), byte(i >> 16), 1},
			})
		}
		for _, r := range c.apply(batch...) {
			opened = append(opened, r.Session)
		}
	}
	c.ctx, c.gate = ctx, budgets
	v := herdView{c.state}
	c.tracker = leader.New(leader.Config{
		Node: 1, Term: herdTerm, Interval: herdInterval, Limits: session.DefaultLimits(2 * time.Second),
		Logger: hclog.NewNullLogger(),
	}, c, v)
	frozen, _ := c.state.Observe(c.tracker)
	c.ended.Go(func() { c.commit(ctx) })
	c.ended.Go(func() { _ = c.tracker.Run(ctx, frozen) })
	c.begin(1)
	c.begin(2)
	return c, opened
}

// begin has a node live.
func (c *herdCluster) begin(n session.Node) {
	v := herdView{c.state}
	s := learner.NewServer(learner.Config{
		Node: n, Interval: herdInterval, Limits: session.DefaultLimits(2 * time.Second), LaggingWait: time.Second,
		Try: func() []string { return nil }, Logger: hclog.NewNullLogger(),
	}, v)
	c.state.Observe(s)
	c.nodes[n] = &herdNode{server: s, gate: gate.New(c.gate)}
	c.ended.Go(func() { _ = s.Run(c.ctx) })
	c.link(c.ctx, n, s)
}

// stop ends all goroutines.
func (c *herdCluster) stop() {
	c.cancel()
	c.ended.Wait()
}

// apply applies an entry.
func (c *herdCluster) apply(commands ...session.Command) []session.Result {
	data, err := fsm.EncodeEntry(commands)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	c.index++
	results, _ := c.state.Apply(&raft.Log{Index: c.index, Term: herdTerm, Data: data}).([]session.Result)
	return results
}

// commit makes entries of what is proposed.
func (c *herdCluster) commit(ctx context.Context) {
	for {
		var batch []*herdProposal
		select {
		case p := <-c.proposals:
			batch = append(batch, p)
		case <-ctx.Done():
			return
		}
		time.Sleep(herdCommit)
		for len(batch) < herdBatch && len(c.proposals) > 0 {
			batch = append(batch, <-c.proposals)
		}
		commands := make([]session.Command, len(batch))
		for i, p := range batch {
			commands[i] = p.command
		}
		for i, r := range c.apply(commands...) {
			batch[i].done <- r
		}
	}
}

// Propose has c committed with the next entry.
func (c *herdCluster) Propose(ctx context.Context, command session.Command) (session.Result, error) {
	p := &herdProposal{command, make(chan session.Result, 1)}
	c.proposals <- p // as many sessions, as much room: nobody waits
	select {
	case r := <-p.done:
		return r, nil
	case <-ctx.Done():
		return session.Result{}, session.ErrOutcomeUnknown
	}
}

// herdView is what all nodes read.
type herdView struct{ state *fsm.State }

func (v herdView) Session(id session.ID) (session.Session, bool) { return v.state.Session(id) }

func (v herdView) Certificate(id session.ID) (session.Certificate, bool) {
	return v.state.Certificate(id)
}

func (v herdView) Credential(id session.ID) (session.Credential, bool) { return v.state.Credential(id) }

func (v herdView) Verify(id session.ID, c session.Credential) bool { return v.state.Verify(id, c) }

func (v herdView) Ascend(after session.ID, yield func(session.Session) bool) {
	v.state.Frozen().Ascend(after, yield)
}

func (v herdView) AppliedIndex() uint64 { return v.state.AppliedIndex() }
func (v herdView) ShownIndex() uint64   { return v.state.ShownIndex() }
func (v herdView) CommitIndex() uint64  { return v.state.AppliedIndex() }
func (v herdView) LastIndex() uint64    { return v.state.AppliedIndex() }
func (v herdView) Attachment() uint64   { return v.state.Attachment() }
func (herdView) Term() uint64           { return herdTerm }

func (herdView) Members() []session.Member {
	return []session.Member{{Node: 1, Voter: true}, {Node: 2, Voter: true}, {Node: 3, Voter: true}}
}

func (v herdView) DigestAt(index uint64) ([16]byte, bool) { return v.state.DigestAt(index) }

func (v herdView) WaitApplied(ctx context.Context, index uint64) error {
	return v.state.WaitApplied(ctx, index)
}

// link keeps a node's learner on the tracker.
func (c *herdCluster) link(ctx context.Context, n session.Node, s *learner.Server) {
	l := &herdLink{ctx: ctx, down: make(chan session.LeaderMessage, 16), up: make(chan session.LearnerMessage, 16)}
	c.ended.Go(func() {
		_ = c.tracker.Follow(ctx, session.Hello{Node: n, Incarnation: 1, Stream: 1}, herdLeaderEnd{l})
	})
	c.ended.Go(func() { _ = s.Follow(herdLearnerEnd{l}) })
}

// herdLink is a stream between the leader and a learner.
type herdLink struct {
	ctx  context.Context //nolint:containedctx // it is the link's life
	down chan session.LeaderMessage
	up   chan session.LearnerMessage
}

func (*herdLink) Close() error { return nil }

type (
	herdLeaderEnd  struct{ *herdLink }
	herdLearnerEnd struct{ *herdLink }
)

func (l herdLeaderEnd) Send(m session.LeaderMessage) error    { return herdGive(l.ctx, l.down, m) }
func (l herdLeaderEnd) Recv() (session.LearnerMessage, error) { return herdTake(l.ctx, l.up) }
func (l herdLearnerEnd) Send(m session.LearnerMessage) error  { return herdGive(l.ctx, l.up, m) }
func (l herdLearnerEnd) Recv() (session.LeaderMessage, error) { return herdTake(l.ctx, l.down) }
func herdVisitor() gate.Caller {
	return gate.Caller{Address: netip.MustParseAddr("192.0.2.1")}
}

func herdGive[M any](ctx context.Context, to chan<- M, m M) error {
	select {
	case to <- m:
		return nil
	case <-ctx.Done():
		return errors.New("the link has ended")
	}
}

func herdTake[M any](ctx context.Context, from <-chan M) (m M, err error) {
	select {
	case m = <-from:
		return m, nil
	case <-ctx.Done():
		return m, errors.New("the link has ended")
	}
}
