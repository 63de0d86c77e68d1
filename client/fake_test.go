package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// fakeCluster is a cluster whose log is a mutex. Tests make its nodes misbehave: see fakefaults_test.go.
type fakeCluster struct {
	t     *testing.T
	start time.Time

	mu         sync.Mutex
	nodes      map[string]*fakeNode
	sessions   map[session.ID]*fakeSession
	ended      map[session.ID]session.Certificate
	requests   map[session.RequestID]session.ID
	attachment uint64
	opened     int
	left       session.Node // is no member any more; 0 for none
	// localOff and upgradeOff are the settings of the cluster.
	localOff, upgradeOff bool
	// tree is the nodes' tree, nil for none.
	tree *fakeTree
	// told are the events for watches of sessions.
	told []session.Event
	// promises, when set, collects the latest end of a promise of each session.
	promises map[session.ID]time.Time
}

// promising notes a promise of d that is made now. The caller holds mu.
func (c *fakeCluster) promising(id session.ID, d time.Duration) {
	if until := time.Now().Add(d); c.promises != nil && d >= 0 && until.After(c.promises[id]) {
		c.promises[id] = until
	}
}

type fakeSession struct {
	session.Session
	attempt uint64
	served  *fakeStream // nil when its owner has lost the connection
}

// fakeNode is a node with one address. The cluster's mu guards its fields.
type fakeNode struct {
	holdfastv1.UnimplementedSessionServiceServer
	holdfastv1.UnimplementedClusterServiceServer
	c       *fakeCluster
	address string
	number  session.Node

	listener    *bufconn.Listener // nil while down
	server      *grpc.Server
	streams     map[*fakeStream]bool
	hang        bool          // new connections are never established
	delay       time.Duration // the time until a new connection is up
	dials       []time.Duration
	clientNames []string // the client names of the calls
	got         []string // the requests received, with the time since the start
	batches     []int    // the sizes of the batches received
	many        []int    // the sizes of the resumes of several sessions received

	// denies, when set, is how the node ends each Connect stream.
	denies error
	// script, when set, decides what the node does with a request of a kind: nil performs it, an error refuses it.
	// errMute swallows the request, errMuteAfter performs it and swallows the answer.
	script func(kind string) error
	// promise, when set, returns the promise for a touch whose smallest timeout is given; negative for none.
	promise func(smallest time.Duration) time.Duration
	// failures are the errors that touches report, by session.
	failures map[session.ID]error
	// state is in each answer when it has a mode. A read-only node refuses writes. A node whose index is behind the
	// client's refuses with LAGGING.
	state session.NodeState
	// stale: the node answers reads although its state is older than the client's, which N4 forbids.
	stale bool
	// underWay counts the writes that the node still does while it is read-only: it has sent them to the leader before.
	underWay int
	// muteGrants: the node grants resumes without a promise.
	muteGrants bool
}

var (
	errMute      = errors.New("swallow the request")
	errMuteAfter = errors.New("do it and swallow the answer")
)

type fakeStream struct {
	grpc.BidiStreamingServer[holdfastv1.ClientMessage, holdfastv1.ServerMessage]
	mu sync.Mutex
	// watches are those of the connection. The cluster's mu guards them.
	watches map[tree.WatchSpec]bool
}

func (s *fakeStream) push(m *holdfastv1.ServerMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.Send(m) // a stream that has ended accepts no messages
}

func newFakeCluster(t *testing.T, nodes int) *fakeCluster {
	t.Helper()
	c := &fakeCluster{
		t: t, start: time.Now(), nodes: make(map[string]*fakeNode), sessions: make(map[session.ID]*fakeSession),
		ended: make(map[session.ID]session.Certificate), requests: make(map[session.RequestID]session.ID),
	}
	for i := 1; i <= nodes; i++ {
		n := &fakeNode{c: c, address: fmt.Sprintf("n%d:7400", i), number: session.Node(i)}
		c.nodes[n.address] = n
		n.up()
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.down()
		}
	})
	return c
}

func (c *fakeCluster) node(i int) *fakeNode { return c.nodes[fmt.Sprintf("n%d:7400", i)] }

func (c *fakeCluster) others(n *fakeNode) []*fakeNode {
	return slices.DeleteFunc(c.all(), func(other *fakeNode) bool { return other == n })
}

func (c *fakeCluster) all() []*fakeNode {
	var all []*fakeNode
	for i := range len(c.nodes) {
		all = append(all, c.node(i+1))
	}
	return all
}

// owner returns the node that owns s, as far as its client knows.
func (c *fakeCluster) owner(s *Session) *fakeNode { return c.node(int(s.Owner())) }

// other returns the other node of a cluster of two.
func (c *fakeCluster) other(s *Session) *fakeNode { return c.others(c.owner(s))[0] }

func (c *fakeCluster) endpoints(from, to int) []string {
	var e []string
	for i := from; i <= to; i++ {
		e = append(e, c.node(i).address)
	}
	return e
}

func (c *fakeCluster) dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	n := c.nodes[address]
	if n == nil {
		c.mu.Unlock()
		return nil, errors.New("no such host")
	}
	n.dials = append(n.dials, time.Since(c.start))
	hang, listener, delay := n.hang, n.listener, n.delay
	c.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case hang:
		<-ctx.Done()
		return nil, ctx.Err()
	case listener == nil:
		return nil, errors.New("connection refused")
	default:
		return listener.DialContext(ctx)
	}
}

// mapped returns a dial by which host1 leads to n1, unless deny has an error for the address.
func (c *fakeCluster) mapped(deny func(context.Context, string) error) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if err := deny(ctx, address); err != nil {
			return nil, err
		}
		return c.dial(ctx, strings.Replace(address, "host", "n", 1))
	}
}

// everyNode runs f for each node.
func (c *fakeCluster) everyNode(f func(*fakeNode)) {
	for i := range len(c.nodes) {
		f(c.node(i + 1))
	}
}

// set runs f with mu held.
func (c *fakeCluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// find returns the living session of a token, or the error that a node refuses it with. The caller holds mu.
func (c *fakeCluster) find(p *holdfastv1.Token) (*fakeSession, error) {
	t, err := wire.TokenFrom(p)
	if err != nil {
		return nil, err
	}
	if t.Credential != credentialOf(t.ID) {
		return nil, session.ErrBadCredential
	}
	if cert, ended := c.ended[t.ID]; ended {
		return nil, &session.ExpiredError{ID: t.ID, Certificate: &cert}
	}
	held := c.sessions[t.ID]
	if held == nil {
		return nil, &session.ExpiredError{ID: t.ID}
	}
	return held, nil
}

// at is find by a node, which knows no local sessions of other nodes. The caller holds mu.
func (n *fakeNode) at(p *holdfastv1.Token) (*fakeSession, error) {
	held, err := n.c.find(p)
	gone, expired := errors.AsType[*session.ExpiredError](err)
	id := session.ID(p.GetSessionId())
	if expired && gone.Certificate == nil || held != nil && held.Local && held.Owner != n.number {
		e := &session.ExpiredError{ID: id}
		if id.Node() != n.number {
			e.LocalTo = id.Node()
		}
		return nil, e
	}
	return held, err
}

// end ends a session and returns its certificate. The caller holds mu.
func (c *fakeCluster) end(id session.ID, cause session.Cause) session.Certificate {
	held := c.sessions[id]
	cert := session.Certificate{
		ID: id, Cause: cause, LastTouchAge: time.Second, Owner: held.Owner, Term: 3, Index: 99,
		EndedAt: session.Epoch(),
	}
	c.tree.ends(id, &cert)
	c.ended[id] = cert
	delete(c.sessions, id)
	return cert
}

// expire makes a session expire, and notifies the stream that serves it.
func (c *fakeCluster) expire(id session.ID) {
	var s *fakeStream
	var cert session.Certificate
	c.set(func() {
		s = c.sessions[id].served
		cert = c.end(id, session.CauseExpired)
	})
	s.push(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{Gone: &holdfastv1.Gone{
		Ids: []uint64{uint64(id)}, Cause: holdfastv1.Cause_CAUSE_EXPIRED,
		Certificate: []*holdfastv1.Certificate{wire.CertificateProto(cert)},
	}}})
}

// newTrial returns a cluster of some nodes, in the bubble of t, and a client that is configured with the first known of
// them.
func newTrial(t *testing.T, nodes, known int) (*fakeCluster, *Client) {
	t.Helper()
	c := newFakeCluster(t, nodes)
	return c, newTestClient(t, c, c.endpoints(1, known))
}

// newModalTrial is newTrial with nodes that report their state, read-write at index 10, and with a client that knows
// all nodes and allows read-only nodes. change, when not nil, changes the client's configuration.
func newModalTrial(t *testing.T, nodes int, change func(*Config)) (*fakeCluster, *Client) {
	t.Helper()
	c := newFakeCluster(t, nodes)
	c.set(func() {
		for _, n := range c.nodes {
			n.state = session.NodeState{Mode: session.ModeReadWrite, Index: 10}
		}
	})
	cfg := Config{Endpoints: c.endpoints(1, nodes), Dial: c.dial, ReadOnly: true}
	if change != nil {
		change(&cfg)
	}
	return c, newClientWith(t, cfg)
}

func newTestClient(t *testing.T, c *fakeCluster, endpoints []string) *Client {
	t.Helper()
	return newClientWith(t, Config{Endpoints: endpoints, Dial: c.dial})
}

// newClientWith returns a client that ends with the test and learns no addresses; see newLearningClient.
func newClientWith(t *testing.T, cfg Config) *Client {
	t.Helper()
	cfg.OnlyEndpoints = true
	return newLearningClient(t, cfg)
}

// newToldClient returns a client that is configured with node 1, and only knows other nodes from its unrequested
// reports.
func newToldClient(t *testing.T, c *fakeCluster) *Client {
	t.Helper()
	c.node(1).refuse("members", session.ErrNoLeader)
	return newLearningClient(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial})
}

// newLearningClient returns a client that ends with the test.
func newLearningClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	if cfg.Rand == nil {
		cfg.Rand = rand.NewPCG(1, 2)
	}
	cl, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// newPoolWith returns a pool that ends with the test.
func newPoolWith(t *testing.T, cfg Config, connections int) *Pool {
	t.Helper()
	cfg.Rand, cfg.OnlyEndpoints = rand.NewPCG(1, 2), true
	p, err := NewPool(cfg, connections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func mustOpen(t *testing.T, cl *Client, timeout time.Duration) *Session {
	t.Helper()
	s, err := cl.Open(t.Context(), SessionOptions{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustOpenLocal(t *testing.T, cl *Client, timeout time.Duration) *Session {
	t.Helper()
	s, err := cl.Open(t.Context(), SessionOptions{Timeout: timeout, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Local() || !s.Token().Local {
		t.Fatalf("opened %v with %+v, want a local session", s.ID(), s.Token())
	}
	return s
}
