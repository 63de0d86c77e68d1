package clientport

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/separate"
	"holdfast/transport/dial"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// fakeService is a session.Service whose functions a test sets. A function that is not set succeeds.
type fakeService struct {
	connect    func(session.Events) error
	open       func(context.Context, session.OpenRequest) (session.Grant, error)
	resume     func(context.Context, session.ResumeRequest) (session.Grant, error)
	touch      func([]session.ID) session.Touched
	touchToken func(context.Context, session.Token) (time.Duration, error)
	closing    func(context.Context, session.Token) error
	upgrade    func(context.Context, session.Token) (session.Grant, error)
	start      func(session.Request, func(session.Grant, error)) bool
	resumes    func(session.ResumesRequest, func([]session.Resumed))
	find       func(context.Context, session.ID, session.ReadOptions) (session.Listed, error)
	list       func(context.Context, session.Query) (session.Page, error)
	state      func() session.NodeState
	allocate   func(context.Context, session.ClaimRequest) (session.ID, error)
	tree       func([]tree.Principal, func()) session.TreeConnection
	watch      func(context.Context, session.SessionWatch, func([]session.SessionEvent) error) error

	mu           sync.Mutex
	events       []session.Events
	disconnected int
}

func (f *fakeService) Connect(e session.Events) (session.Connection, error) {
	if f.connect != nil {
		if err := f.connect(e); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	return &fakeConnection{f}, nil
}

func (f *fakeService) WatchSessions(
	ctx context.Context, w session.SessionWatch, tell func([]session.SessionEvent) error,
) error {
	if f.watch == nil {
		return session.ErrReadOnly
	}
	return f.watch(ctx, w, tell)
}

func (c *fakeConnection) Tree(principals []tree.Principal, notify func()) session.TreeConnection {
	return c.tree(principals, notify)
}

// newest returns the events of the newest connection.
func (f *fakeService) newest() session.Events {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events[len(f.events)-1]
}

func (f *fakeService) ended() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disconnected
}

func (f *fakeService) Find(ctx context.Context, id session.ID, o session.ReadOptions) (session.Listed, error) {
	return f.find(ctx, id, o)
}

func (f *fakeService) State() session.NodeState {
	if f.state == nil {
		return session.NodeState{}
	}
	return f.state()
}

func (f *fakeService) List(ctx context.Context, q session.Query) (session.Page, error) {
	return f.list(ctx, q)
}

func (f *fakeService) AllocateIDs(ctx context.Context, r session.ClaimRequest) (session.ID, error) {
	return f.allocate(ctx, r)
}

type fakeConnection struct{ *fakeService }

func (c *fakeConnection) Open(ctx context.Context, o session.OpenRequest) (session.Grant, error) {
	if c.open == nil {
		return porttest.Grant(7), nil
	}
	return c.open(ctx, o)
}

func (c *fakeConnection) Resume(ctx context.Context, r session.ResumeRequest) (session.Grant, error) {
	if c.resume == nil {
		return porttest.Grant(r.Token.ID), nil
	}
	return c.resume(ctx, r)
}

func (c *fakeConnection) Touch(ids []session.ID) session.Touched {
	if c.touch == nil {
		return session.Touched{SafeFor: time.Second}
	}
	return c.touch(ids)
}

func (c *fakeConnection) TouchAndConfirm(ids []session.ID, _ func(time.Duration)) session.Touched {
	return c.Touch(ids)
}

func (c *fakeConnection) Confirmed(_ context.Context, _ time.Time, tokens []session.Token) []time.Duration {
	return make([]time.Duration, len(tokens))
}

func (c *fakeConnection) TouchToken(ctx context.Context, t session.Token) (time.Duration, error) {
	if c.touchToken == nil {
		return time.Second, nil
	}
	return c.touchToken(ctx, t)
}

func (c *fakeConnection) Close(ctx context.Context, t session.Token) error {
	if c.closing == nil {
		return nil
	}
	return c.closing(ctx, t)
}

// Start starts nothing unless the test says how: the client port calls the functions above, each in a goroutine.
func (c *fakeConnection) Start(r session.Request, done func(session.Grant, error)) bool {
	return c.start != nil && c.start(r, done)
}

// StartResumes resumes each session by the function for one, unless the test says how.
func (c *fakeConnection) StartResumes(r session.ResumesRequest, done func([]session.Resumed)) {
	if c.resumes != nil {
		c.resumes(r, done)
		return
	}
	all := make([]session.Resumed, len(r.Sessions))
	for i, one := range r.Sessions {
		g, err := c.Resume(context.Background(), session.ResumeRequest{
			Token: one.Token(), Instance: r.Instance, Attempt: one.Attempt, Seen: r.Seen,
		})
		all[i] = session.Resumed{Attachment: g.Token.Attachment, SafeFor: g.SafeFor, Err: err}
		if err != nil {
			all[i].Attachment = 0
		}
	}
	done(all)
}

func (c *fakeConnection) Upgrade(ctx context.Context, t session.Token) (session.Grant, error) {
	if c.upgrade == nil {
		return porttest.Grant(t.ID), nil
	}
	return c.upgrade(ctx, t)
}

func (c *fakeConnection) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disconnected++
}

type fakeCluster struct{ err error }

func (c fakeCluster) Status(context.Context) (NodeStatus, error) {
	return NodeStatus{
		Node: 1, ClusterID: "c", Role: RoleLeader, Term: 2, Leader: 3, LeaderAddress: "n3:7400", CommitIndex: 4,
		AppliedIndex:   5,
		SessionsGlobal: 6, SessionsLocal: 7, SessionsAttached: 8, Ready: true, NotReadyBecause: "x", Warning: "w",
		StateDigest: "ab", Version: "v",
		Mode:     session.ModeReadOnly,
		Tree:     TreeStatus{FeatureLevel: 1, Entries: 9, Ephemerals: 10, Bytes: 11, Watches: 12},
		Turnover: session.Turnover{Opens: 15, Moves: 16, Closes: 17, Expiries: 18, Kills: 19, TreeWrites: 20},
	}, c.err
}

func (fakeCluster) Members() []Member {
	return []Member{{Node: 2, Voter: true, Leader: true, ClientAddress: "c", RaftAddress: "r", PeerAddress: "p"}}
}

// clientPort starts a client port that serves service, for a test in a bubble: a goroutine that is left when the test
// returns makes the bubble panic. The test defers stop. A client that waits for ever shows as a deadline that passes,
// because keepalives keep the bubble's clock going.
func clientPort(t *testing.T, cfg Config, service *fakeService) (*Server, *porttest.Pipes, func()) {
	t.Helper()
	network := porttest.NewPipes()
	s := New(cfg, service, fakeCluster{})
	served := make(chan error, 1)
	go func() { served <- s.Serve(network) }()
	return s, network, func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if got := s.Stats(); got.Connections != 0 || got.Streams != 0 || got.Sessions != 0 {
			t.Errorf("left behind: %+v", got)
		}
	}
}

func dialPipes(t *testing.T, network *porttest.Pipes) *grpc.ClientConn {
	t.Helper()
	conn, err := dial.Client("node", dial.Options{Dial: network.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connected returns a new Connect stream.
func connected(t *testing.T, network *porttest.Pipes) holdfastv1.SessionService_ConnectClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// speaking opens a Connect stream that has sent a message, and serves no session.
func speaking(t *testing.T, network *porttest.Pipes) holdfastv1.SessionService_ConnectClient {
	t.Helper()
	stream := connected(t, network)
	send(t, stream, touchMessage(1))
	receive(t, stream)
	return stream
}

// holding opens a Connect stream that has a session.
func holding(t *testing.T, network *porttest.Pipes, id session.ID) holdfastv1.SessionService_ConnectClient {
	t.Helper()
	stream := connected(t, network)
	send(t, stream, resumeMessage(1, id))
	receive(t, stream)
	return stream
}

func openMessage(seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
		Seq: seq, Timeout: wire.PromiseProto(time.Second), RequestId: make([]byte, 16),
	}}}
}

func resumeMessage(seq uint64, id session.ID) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
		Seq: seq, Token: wire.TokenProto(porttest.Grant(id).Token), Instance: 1, Attempt: 1,
	}}}
}

func touchMessage(seq uint64, ids ...uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{
		Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{Seq: seq, Ids: ids}},
	}
}

func closeMessage(seq uint64, id session.ID) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{Close: &holdfastv1.Close{
		Seq: seq, Token: wire.TokenProto(porttest.Grant(id).Token),
	}}}
}

func send(t *testing.T, stream holdfastv1.SessionService_ConnectClient, messages ...*holdfastv1.ClientMessage) {
	t.Helper()
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			t.Fatalf("sending: %v", err)
		}
	}
}

func receive(t *testing.T, stream holdfastv1.SessionService_ConnectClient) *holdfastv1.ServerMessage {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatalf("receiving: %v", err)
	}
	return m
}

func noState() session.NodeState { return session.NodeState{} }

// sent returns the message that the outbox gave to gRPC.
func sent(m any) *holdfastv1.ServerMessage {
	p, ok := m.(port.Appender)
	if !ok {
		panic(fmt.Sprintf("%T was sent", m))
	}
	b, err := p.Append(nil)
	if err != nil || len(b) != p.Size() {
		panic(fmt.Sprintf("%d bytes, of which %d were announced: %v", len(b), p.Size(), err))
	}
	got := &holdfastv1.ServerMessage{}
	if err := proto.Unmarshal(b, got); err != nil {
		panic(err)
	}
	return got
}

// Promised is for ports of other protocols.
func (*fakeConnection) Promised(session.ID) time.Duration { return -1 }
