package herd

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"holdfast/fsm"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/session"
	"holdfast/test/noraft"
	"holdfast/transport/ratelimit"
)

// The log of the herd's cluster commits an entry of up to herdBatch moves in herdCommit: 24,000 moves a second. An idle
// node with a real disk does more than 20,000 (docs/benchmarks.md).
const (
	herdCommit = 4 * time.Millisecond
	herdBatch  = 96
	// herdPreload is the number of sessions that one entry opens before the herd begins.
	herdPreload = 1000
)

// herdCluster is a cluster without consensus and network. Each node has the rate limits of a client port.
type herdCluster struct {
	noraft  *noraft.Cluster
	state   *fsm.State
	tracker *leader.Tracker
	nodes   map[session.Node]*herdNode // the living nodes
	limits  ratelimit.Config
	ctx     context.Context //nolint:containedctx // lasts as long as the cluster
	stop    func()          // ends all goroutines
}

// herdNode is a living node. Every resume and touch passes its rate limits, as on the client port.
type herdNode struct {
	number  session.Node
	server  *learner.Server
	limiter *ratelimit.Limiter
	// admitted are the times at which the rate limits admitted resumes; asked counts all resumes. Only the goroutine
	// that drives the herd uses them.
	admitted []time.Duration
	asked    int
	messages int // the resumes of several sessions
}

// flood sends the node requests of clients that do not return: resumes on connections that end at once, and unary
// calls.
func (n *herdNode) flood(trial herdTrial) {
	now := time.Now()
	for i := range trial.flood {
		p := n.limiter.Reservations(herdVisitor(), 1)
		_ = p.Admit(now, ratelimit.Arrival{Kind: ratelimit.Resumes, Session: session.ID(i + 1)})
		defer p.Leave()
	}
	for range trial.calls {
		_ = n.limiter.Admit(now, ratelimit.Resumes, 1, herdVisitor())
	}
}

func herdVisitor() ratelimit.Caller {
	return ratelimit.Caller{Address: netip.MustParseAddr("192.0.2.1")}
}

func herdAddress(n session.Node) string { return fmt.Sprintf("n%d:7400", n) }

// newHerdCluster returns a cluster of three nodes and its sessions. Of so many sessions in a row, each is at the same
// node, so that a third of all are at each node. Node 3 has just died. The test defers stop.
func newHerdCluster(t *testing.T, sessions, row int, budgets ratelimit.Config) (*herdCluster, []session.Session) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &herdCluster{
		noraft: noraft.New(noraft.Config{
			Voters: 3, Limits: session.DefaultLimits(), Commit: herdCommit, Batch: herdBatch,
		}),
		nodes: map[session.Node]*herdNode{}, limits: budgets, ctx: ctx,
	}
	c.stop = func() {
		cancel()
		if err := c.noraft.Wait(); err != nil {
			t.Error(err)
		}
	}
	opened := herdSessions(t, c.noraft, sessions, row)
	c.noraft.Lead(ctx)
	c.state, c.tracker = c.noraft.State(), c.noraft.Tracker()
	c.begin(1)
	c.begin(2)
	return c, opened
}

// herdSessions opens sessions with entries of the log.
func herdSessions(t *testing.T, c *noraft.Cluster, sessions, row int) (opened []session.Session) {
	t.Helper()
	for len(opened) < sessions {
		var entry []session.Command
		for i := len(opened); i < sessions && len(entry) < herdPreload; i++ {
			entry = append(entry, session.OpenSession{
				Node: session.Node(i/row%3 + 1), MS: uint64(i), Spec: session.Spec{Timeout: herdTimeout},
				RequestID: session.RequestID{byte(i), byte(i >> 8), byte(i >> 16), 1},
			})
		}
		results, err := c.Apply(entry...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			opened = append(opened, r.Session)
		}
	}
	return opened
}

// begin starts node n.
func (c *herdCluster) begin(n session.Node) {
	s := c.noraft.Serve(c.ctx, n)
	c.nodes[n] = &herdNode{number: n, server: s, limiter: ratelimit.New(c.limits)}
	c.noraft.Follow(c.ctx, n, s)
}
