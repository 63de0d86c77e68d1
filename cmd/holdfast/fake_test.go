package main

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// fakeNode is a node on loopback. It knows one living and one ended session, and serves streams.
type fakeNode struct {
	holdfastv1.UnimplementedSessionServiceServer
	holdfastv1.UnimplementedClusterServiceServer
	holdfastv1.UnimplementedIdServiceServer
	address string
	number  uint32 // in its status
	// freezing is in its status too.
	freezing *holdfastv1.Freezing

	mu       sync.Mutex
	got      []string                                // guarded by mu
	stream   holdfastv1.SessionService_ConnectServer // guarded by mu; the newest
	cut      chan struct{}                           // guarded by mu; closing it ends stream
	absent   bool                                    // guarded by mu; end new streams
	refuse   error                                   // guarded by mu
	filter   *holdfastv1.SessionFilter
	order    holdfastv1.SessionOrder
	pageSize uint32   // guarded by mu; of the newest list
	seen     []uint64 // guarded by mu; the seen index of each list
	// principal is the client's name in the newest list. guarded by mu
	principal string
	// state is part of each message once it has a mode. A read-only node refuses writes. guarded by mu
	state session.NodeState
}

// isIn puts the node into a mode. A read-only node refuses writes.
func (n *fakeNode) isIn(mode session.Mode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.refuse = session.NodeState{Node: 1, Mode: mode, Index: 98}, nil
	if mode == session.ModeReadOnly {
		n.refuse = session.ErrReadOnly
	}
}

// lose ends the newest stream, and every new stream until back is called.
func (n *fakeNode) lose() (back func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.absent = true
	close(n.cut)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.absent = false
	}
}

// reads notes a read. A read-only node refuses it unless the request allows read-only answers.
//
//nolint:revive // flag-parameter: a field of the request
func (n *fakeNode) reads(name string, allowed bool) (*holdfastv1.NodeState, error) {
	err := n.called(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state.Mode == session.ModeReadOnly {
		err = wire.Status(session.ErrNoLeader)
		if allowed {
			err = nil
		}
	}
	state := n.stateProto()
	if state == nil {
		state = readWrite()
	}
	return state, err
}

// readWrite is the state of a node that serves.
func readWrite() *holdfastv1.NodeState {
	return wire.StateProto(session.NodeState{Node: 1, Mode: session.ModeReadWrite, Index: 98})
}

// stateProto returns the state for a message of a stream; nil before the node has a mode. The caller holds mu.
func (n *fakeNode) stateProto() *holdfastv1.NodeState {
	if n.state.Mode == 0 {
		return nil
	}
	return wire.StateProto(n.state)
}

const (
	livingID session.ID = 0x0100_0000_0001_0007
	endedID  session.ID = 0x0200_0000_0002_0000
)

func living() session.Session {
	return session.Session{
		ID: livingID, Timeout: 10 * time.Second, Owner: 1, Attachment: 42,
		Labels:      session.Labels{{Key: "service", Value: "web"}},
		OpenedIndex: 12, OpenedAt: session.Epoch().Add(90 * time.Minute),
	}
}

func livingToken() session.Token {
	return session.Token{ID: livingID, Credential: session.Credential{0xab, 15: 0xcd}, Attachment: 42}
}

func startNode(t *testing.T) *fakeNode {
	t.Helper()
	n := &fakeNode{number: 1}
	n.address = startNodeWith(t, func(server *grpc.Server) {
		holdfastv1.RegisterSessionServiceServer(server, n)
		holdfastv1.RegisterClusterServiceServer(server, n)
		holdfastv1.RegisterIdServiceServer(server, n)
	})
	t.Setenv(endpointsVariable, n.address)
	return n
}

// startNodeWith starts a server with the services of register, and returns its address.
func startNodeWith(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return listener.Addr().String()
}

// called notes a call and returns the refusal that the test asked for.
func (n *fakeNode) called(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, name)
	return wire.Status(n.refuse)
}

func (n *fakeNode) calls() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.got
}

// callsOfSessions are the calls but those by which a client that holds a session learns of the other nodes.
func (n *fakeNode) callsOfSessions() []string {
	return slices.DeleteFunc(slices.Clone(n.calls()), func(call string) bool { return call == "members" })
}

func (n *fakeNode) refuseWith(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = err
}

func (n *fakeNode) Connect(stream holdfastv1.SessionService_ConnectServer) error {
	cut, ended := make(chan struct{}), make(chan error, 1)
	n.mu.Lock()
	n.stream, n.cut = stream, cut
	absent := n.absent
	n.mu.Unlock()
	if absent {
		return wire.Status(session.ErrStopping)
	}
	go func() { ended <- n.serve(stream) }() // ends with the stream
	select {
	case err := <-ended:
		return err
	case <-cut:
		return wire.Status(session.ErrStopping)
	}
}

func (n *fakeNode) serve(stream holdfastv1.SessionService_ConnectServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if answer := n.answer(m); answer != nil {
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

func (n *fakeNode) answer(m *holdfastv1.ClientMessage) *holdfastv1.ServerMessage {
	s, token, safe := wire.SessionProto(living()), wire.TokenProto(livingToken()), durationpb.New(9899*time.Millisecond)
	name, seq := "touch", m.GetTouch().GetSeq()
	answer := &holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Seq: seq, SafeFor: safe}},
	}
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		name, seq = "open "+m.Open.GetTimeout().AsDuration().String()+" "+m.Open.GetLabels()["service"], m.Open.GetSeq()
		if m.Open.GetLocal() {
			name += "local"
			s.Local, token.Local = true, true
		}
		answer.Message = &holdfastv1.ServerMessage_Opened{
			Opened: &holdfastv1.Opened{Seq: seq, Session: s, Token: token, SafeFor: safe},
		}
	case *holdfastv1.ClientMessage_Resume:
		name, seq = "resume", m.Resume.GetSeq()
		answer.Message = &holdfastv1.ServerMessage_Resumed{
			Resumed: &holdfastv1.Resumed{Seq: seq, Session: s, Token: token, SafeFor: safe},
		}
	case *holdfastv1.ClientMessage_Close:
		name, seq = "close", m.Close.GetSeq()
		answer.Message = &holdfastv1.ServerMessage_Closed{Closed: &holdfastv1.Closed{Seq: seq}}
	}
	if n.called(name) != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		answer.State = n.stateProto()
		answer.Message = &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, n.refuse)}
	}
	return answer
}

// moved tells the newest stream that another client has the session now.
func (n *fakeNode) moved() {
	n.mu.Lock()
	stream := n.stream
	n.mu.Unlock()
	_ = stream.Send(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Moved{
				Moved: &holdfastv1.Moved{Ids: []uint64{uint64(livingID)}, Instances: []uint64{9}},
			},
		},
	)
}

func certificate() session.Certificate {
	return session.Certificate{
		ID: endedID, Cause: session.CauseExpired, LastTouchAge: 10100 * time.Millisecond, Owner: 2, Term: 3, Index: 77,
		Credited: 250 * time.Millisecond, EndedAt: session.Epoch().Add(time.Hour),
	}
}

func (n *fakeNode) GetSession(_ context.Context,
	m *holdfastv1.GetSessionRequest,
) (*holdfastv1.GetSessionResponse, error) {
	state, err := n.reads("get", m.GetAllowReadOnly())
	if err != nil {
		return nil, err
	}
	switch id := session.ID(m.GetSessionId()); id {
	case livingID:
		return &holdfastv1.GetSessionResponse{
			Result:    &holdfastv1.GetSessionResponse_Session{Session: wire.SessionProto(living())},
			Remaining: durationpb.New(7654 * time.Millisecond), State: state,
		}, nil
	case endedID:
		return &holdfastv1.GetSessionResponse{
			Result: &holdfastv1.GetSessionResponse_Certificate{Certificate: wire.CertificateProto(certificate())},
			State:  state,
		}, nil
	default:
		return nil, wire.Status(&session.ExpiredError{ID: id})
	}
}

// ListSessions answers two pages of one session.
func (n *fakeNode) ListSessions(ctx context.Context,
	m *holdfastv1.ListSessionsRequest,
) (*holdfastv1.ListSessionsResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	n.mu.Lock()
	n.principal = strings.Join(md.Get("holdfast-principal"), " and ")
	n.filter, n.order, n.pageSize = m.GetFilter(), m.GetOrder(), m.GetPageSize()
	n.mu.Unlock()
	s, next, remaining := living(), "2", durationpb.New(time.Second)
	if m.GetPageToken() != "" {
		s.ID, s.Labels, next, remaining = s.ID+1, nil, "", nil
	}
	state, err := n.reads("list "+m.GetPageToken(), m.GetAllowReadOnly())
	n.mu.Lock()
	n.seen = append(n.seen, m.GetSeenIndex())
	n.mu.Unlock()
	return &holdfastv1.ListSessionsResponse{
		Sessions:      []*holdfastv1.ListedSession{{Session: wire.SessionProto(s), Remaining: remaining}},
		NextPageToken: next, State: state,
	}, err
}

func (n *fakeNode) CloseSession(context.Context,
	*holdfastv1.CloseSessionRequest,
) (*holdfastv1.CloseSessionResponse, error) {
	return &holdfastv1.CloseSessionResponse{}, n.called("close")
}

// UpgradeSession takes the session's token in its local form.
func (n *fakeNode) UpgradeSession(_ context.Context,
	m *holdfastv1.UpgradeSessionRequest,
) (*holdfastv1.UpgradeSessionResponse, error) {
	s, token := living(), livingToken()
	token.Local = true
	if !proto.Equal(m.GetToken(), wire.TokenProto(token)) {
		return nil, wire.Status(session.ErrMoved)
	}
	s.Attachment, token.Attachment, token.Local = 43, 43, false
	return &holdfastv1.UpgradeSessionResponse{Session: wire.SessionProto(s), Token: wire.TokenProto(token)},
		n.called("upgrade")
}

func (n *fakeNode) TouchSessions(_ context.Context,
	m *holdfastv1.TouchSessionsRequest,
) (*holdfastv1.TouchSessionsResponse, error) {
	_ = n.called("touch")
	n.mu.Lock()
	defer n.mu.Unlock()
	r := &holdfastv1.TouchResult{SessionId: m.GetTokens()[0].GetSessionId(), Error: wire.Detail(n.refuse)}
	return &holdfastv1.TouchSessionsResponse{Results: []*holdfastv1.TouchResult{r}}, nil
}

func (n *fakeNode) AllocateIds(_ context.Context,
	m *holdfastv1.AllocateIdsRequest,
) (*holdfastv1.AllocateIdsResponse, error) {
	return &holdfastv1.AllocateIdsResponse{First: uint64(livingID), Count: m.GetCount()}, n.called("allocate")
}

func (n *fakeNode) GetStatus(context.Context, *holdfastv1.GetStatusRequest) (*holdfastv1.GetStatusResponse, error) {
	return &holdfastv1.GetStatusResponse{
		Id: n.number, ClusterId: "holdfast", Role: holdfastv1.Role_ROLE_FOLLOWER, Term: 3, Leader: 2,
		LeaderAddress: "n2:7400", CommitIndex: 99,
		Mode: holdfastv1.Mode_MODE_READ_ONLY, AppliedIndex: 98, SessionsGlobal: 5, MaxSessions: 100, StateBytes: 1600,
		MaxStateBytes: 2_200_000_000, SessionsAttached: 2, NotReadyBecause: "no good round", StateDigest: "ab",
		Version: "v1", FeatureLevel: 1, TreeEntries: 12_000, TreeEphemerals: 7, TreeBytes: 3 << 20, Watches: 41,
		Freezing: n.freezing,
	}, n.called("status")
}

func (n *fakeNode) ListMembers(context.Context,
	*holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	return &holdfastv1.ListMembersResponse{Members: []*holdfastv1.Member{
		{Id: 1, Voter: true, ClientAddress: "n1:7400", RaftAddress: "n1:7401", PeerAddress: "n1:7402"},
		{
			Id: 12, Voter: true, Leader: true, ClientAddress: "n12:7400", RaftAddress: "n12:7401",
			PeerAddress: "n12:7402",
		},
	}}, n.called("members")
}
