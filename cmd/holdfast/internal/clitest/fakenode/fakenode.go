// Package fakenode has nodes for the tests of commands: servers on loopback with the answers that a test wants.
package fakenode

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Node is a node on loopback. It knows one living and one ended session, and serves streams.
type Node struct {
	holdfastv1.UnimplementedSessionServiceServer
	holdfastv1.UnimplementedClusterServiceServer
	holdfastv1.UnimplementedIdServiceServer
	Address string
	Number  uint32 // in its status
	// freezing is in its status too.
	Freezing *holdfastv1.Freezing

	Mu       sync.Mutex
	got      []string                                // guarded by mu
	stream   holdfastv1.SessionService_ConnectServer // guarded by mu; the newest
	cut      chan struct{}                           // guarded by mu; closing it ends stream
	absent   bool                                    // guarded by mu; end new streams
	Refuse   error                                   // guarded by mu
	Filter   *holdfastv1.SessionFilter
	Order    holdfastv1.SessionOrder
	PageSize uint32   // guarded by mu; of the newest list
	Seen     []uint64 // guarded by mu; the seen index of each list
	// ClientName is the client's name in the newest list. guarded by mu
	ClientName string
	// state is part of each message once it has a mode. A read-only node refuses writes. guarded by mu
	state session.NodeState
}

// SetMode puts the node into a mode. A read-only node refuses writes.
func (n *Node) SetMode(mode session.Mode) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.state, n.Refuse = session.NodeState{Node: 1, Mode: mode, Index: 98}, nil
	if mode == session.ModeReadOnly {
		n.Refuse = session.ErrReadOnly
	}
}

// Lose ends the newest stream, and every new stream until back is called.
func (n *Node) Lose() (back func()) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.absent = true
	close(n.cut)
	return func() {
		n.Mu.Lock()
		defer n.Mu.Unlock()
		n.absent = false
	}
}

// reads records a read. A read-only node refuses it unless the request allows read-only answers.
//
//nolint:revive // flag-parameter: a field of the request
func (n *Node) reads(name string, allowed bool) (*holdfastv1.NodeState, error) {
	err := n.Called(name)
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.state.Mode == session.ModeReadOnly {
		err = wire.Status(session.ErrNoLeader)
		if allowed {
			err = nil
		}
	}
	state := n.stateProto()
	if state == nil {
		state = ReadWrite()
	}
	return state, err
}

// ReadWrite is the state of a node that serves.
func ReadWrite() *holdfastv1.NodeState {
	return wire.StateProto(session.NodeState{Node: 1, Mode: session.ModeReadWrite, Index: 98})
}

// stateProto returns the state for a message of a stream; nil before the node has a mode. The caller holds mu.
func (n *Node) stateProto() *holdfastv1.NodeState {
	if n.state.Mode == 0 {
		return nil
	}
	return wire.StateProto(n.state)
}

// The sessions that the node knows: one lives, one has ended.
const (
	LivingID session.ID = 0x0100_0000_0001_0007
	EndedID  session.ID = 0x0200_0000_0002_0000
)

// Living returns the session that lives.
func Living() session.Session {
	return session.Session{
		ID:   LivingID,
		Spec: session.Spec{Timeout: 10 * time.Second, Labels: session.Labels{{Key: "service", Value: "web"}}}, Owner: 1, Attachment: 42,
		OpenedIndex: 12, OpenedAt: session.Epoch().Add(90 * time.Minute),
	}
}

// LivingToken returns the token of the session that lives.
func LivingToken() session.Token {
	return session.Token{ID: LivingID, Credential: session.Credential{0xab, 15: 0xcd}, Attachment: 42}
}

// Start runs a node until the end of the test.
func Start(t *testing.T) *Node {
	t.Helper()
	n := &Node{Number: 1}
	n.Address = Serve(t, func(server *grpc.Server) {
		holdfastv1.RegisterSessionServiceServer(server, n)
		holdfastv1.RegisterClusterServiceServer(server, n)
		holdfastv1.RegisterIdServiceServer(server, n)
	})
	t.Setenv("HOLDFAST_ENDPOINTS", n.Address)
	return n
}

// Serve starts a server with the services of register, and returns its address.
func Serve(t *testing.T, register func(*grpc.Server)) string {
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

// Called notes a call and returns the refusal that the test has set.
func (n *Node) Called(name string) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.got = append(n.got, name)
	return wire.Status(n.Refuse)
}

// Calls returns the names of the calls so far.
func (n *Node) Calls() []string {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.got
}

// SessionCalls are the calls without those by which a client with a session learns of the other nodes.
func (n *Node) SessionCalls() []string {
	return slices.DeleteFunc(slices.Clone(n.Calls()), func(call string) bool { return call == "members" })
}

// RefuseWith has all later calls fail with err; nil ends that.
func (n *Node) RefuseWith(err error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Refuse = err
}

// Connect serves a stream.
func (n *Node) Connect(stream holdfastv1.SessionService_ConnectServer) error {
	cut, ended := make(chan struct{}), make(chan error, 1)
	n.Mu.Lock()
	n.stream, n.cut = stream, cut
	absent := n.absent
	n.Mu.Unlock()
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

func (n *Node) serve(stream holdfastv1.SessionService_ConnectServer) error {
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

func (n *Node) answer(m *holdfastv1.ClientMessage) *holdfastv1.ServerMessage {
	s, token, safe := wire.SessionProto(Living()), wire.TokenProto(LivingToken()), durationpb.New(9899*time.Millisecond)
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
	if n.Called(name) != nil {
		n.Mu.Lock()
		defer n.Mu.Unlock()
		answer.State = n.stateProto()
		answer.Message = &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, n.Refuse)}
	}
	return answer
}

// SendMoved reports to the newest stream that another client has the session now.
func (n *Node) SendMoved() {
	n.Mu.Lock()
	stream := n.stream
	n.Mu.Unlock()
	_ = stream.Send(
		&holdfastv1.ServerMessage{
			Message: &holdfastv1.ServerMessage_Moved{
				Moved: &holdfastv1.Moved{Ids: []uint64{uint64(LivingID)}, Instances: []uint64{9}},
			},
		},
	)
}

// Certificate returns the death certificate of the session that has ended.
func Certificate() session.Certificate {
	return session.Certificate{
		ID: EndedID, Cause: session.CauseExpired, LastTouchAge: 10100 * time.Millisecond, Owner: 2, Term: 3, Index: 77,
		Credited: 250 * time.Millisecond, EndedAt: session.Epoch().Add(time.Hour),
	}
}

// GetSession answers for the two sessions.
func (n *Node) GetSession(_ context.Context,
	m *holdfastv1.GetSessionRequest,
) (*holdfastv1.GetSessionResponse, error) {
	state, err := n.reads("get", m.GetAllowReadOnly())
	if err != nil {
		return nil, err
	}
	switch id := session.ID(m.GetSessionId()); id {
	case LivingID:
		return &holdfastv1.GetSessionResponse{
			Result:    &holdfastv1.GetSessionResponse_Session{Session: wire.SessionProto(Living())},
			Remaining: durationpb.New(7654 * time.Millisecond), State: state,
		}, nil
	case EndedID:
		return &holdfastv1.GetSessionResponse{
			Result: &holdfastv1.GetSessionResponse_Certificate{Certificate: wire.CertificateProto(Certificate())},
			State:  state,
		}, nil
	default:
		return nil, wire.Status(&session.ExpiredError{ID: id})
	}
}

// ListSessions answers two pages of one session.
func (n *Node) ListSessions(ctx context.Context,
	m *holdfastv1.ListSessionsRequest,
) (*holdfastv1.ListSessionsResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	n.Mu.Lock()
	n.ClientName = strings.Join(md.Get("holdfast-client-name"), " and ")
	n.Filter, n.Order, n.PageSize = m.GetFilter(), m.GetOrder(), m.GetPageSize()
	n.Mu.Unlock()
	s, next, remaining := Living(), "2", durationpb.New(time.Second)
	if m.GetPageToken() != "" {
		s.ID, s.Labels, next, remaining = s.ID+1, nil, "", nil
	}
	state, err := n.reads("list "+m.GetPageToken(), m.GetAllowReadOnly())
	n.Mu.Lock()
	n.Seen = append(n.Seen, m.GetSeenIndex())
	n.Mu.Unlock()
	return &holdfastv1.ListSessionsResponse{
		Sessions:      []*holdfastv1.ListedSession{{Session: wire.SessionProto(s), Remaining: remaining}},
		NextPageToken: next, State: state,
	}, err
}

// CloseSession records the call.
func (n *Node) CloseSession(context.Context,
	*holdfastv1.CloseSessionRequest,
) (*holdfastv1.CloseSessionResponse, error) {
	return &holdfastv1.CloseSessionResponse{}, n.Called("close")
}

// UpgradeSession expects the session's token in its local form.
func (n *Node) UpgradeSession(_ context.Context,
	m *holdfastv1.UpgradeSessionRequest,
) (*holdfastv1.UpgradeSessionResponse, error) {
	s, token := Living(), LivingToken()
	token.Local = true
	if !proto.Equal(m.GetToken(), wire.TokenProto(token)) {
		return nil, wire.Status(session.ErrMoved)
	}
	s.Attachment, token.Attachment, token.Local = 43, 43, false
	return &holdfastv1.UpgradeSessionResponse{Session: wire.SessionProto(s), Token: wire.TokenProto(token)},
		n.Called("upgrade")
}

// TouchSessions answers as if every session lived except endedID.
func (n *Node) TouchSessions(_ context.Context,
	m *holdfastv1.TouchSessionsRequest,
) (*holdfastv1.TouchSessionsResponse, error) {
	_ = n.Called("touch")
	n.Mu.Lock()
	defer n.Mu.Unlock()
	r := &holdfastv1.TouchResult{SessionId: m.GetTokens()[0].GetSessionId(), Error: wire.Detail(n.Refuse)}
	return &holdfastv1.TouchSessionsResponse{Results: []*holdfastv1.TouchResult{r}}, nil
}

// AllocateIds returns a block of ids.
func (n *Node) AllocateIds(_ context.Context,
	m *holdfastv1.AllocateIdsRequest,
) (*holdfastv1.AllocateIdsResponse, error) {
	return &holdfastv1.AllocateIdsResponse{First: uint64(LivingID), Count: m.GetCount()}, n.Called("allocate")
}

// GetStatus returns the status of a follower.
func (n *Node) GetStatus(context.Context, *holdfastv1.GetStatusRequest) (*holdfastv1.GetStatusResponse, error) {
	return &holdfastv1.GetStatusResponse{
		Id: n.Number, ClusterId: "holdfast", Role: holdfastv1.Role_ROLE_FOLLOWER, Term: 3, Leader: 2,
		LeaderAddress: "n2:7400", CommitIndex: 99,
		Mode: holdfastv1.Mode_MODE_READ_ONLY, AppliedIndex: 98, SessionsGlobal: 5, MaxSessions: 100, StateBytes: 1600,
		MaxStateBytes: 2_200_000_000, SessionsAttached: 2, NotReadyBecause: "no good round", StateDigest: "ab",
		Version: "v1", FeatureLevel: 1, TreeEntries: 12_000, TreeEphemerals: 7, TreeBytes: 3 << 20, Watches: 41,
		Freezing: n.Freezing,
	}, n.Called("status")
}

// ListMembers returns the members of a cluster.
func (n *Node) ListMembers(context.Context,
	*holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	return &holdfastv1.ListMembersResponse{Members: []*holdfastv1.Member{
		{Id: 1, Voter: true, ClientAddress: "n1:7400", RaftAddress: "n1:7401", PeerAddress: "n1:7402"},
		{
			Id: 12, Voter: true, Leader: true, ClientAddress: "n12:7400", RaftAddress: "n12:7401",
			PeerAddress: "n12:7402",
		},
	}}, n.Called("members")
}

// ListConnections lists a connection that serves livingID, and one of a client that writes to terminals. At odd nodes
// the second connection is the busier one.
func (n *Node) ListConnections(_ context.Context,
	m *holdfastv1.ListConnectionsRequest,
) (*holdfastv1.ListConnectionsResponse, error) {
	if err := n.Called("connections " + m.GetPrincipal()); err != nil {
		return nil, err
	}
	all := []*holdfastv1.ClientConnection{
		{
			Address: "10.0.0.1:4000", Protocol: holdfastv1.Protocol_PROTOCOL_GRPC, Name: "worker", Verified: true,
			Principals: []string{"ip:10.0.0.1", "x509:CN=w"}, Since: timestamppb.New(session.Epoch()), Sessions: 1,
			Watches: 2, Requests: 30, RequestsPerSecond: 4.25, RateOver: durationpb.New(5 * time.Second), UnsentBytes: 2048,
			SessionIds: []uint64{uint64(LivingID)},
		},
		{
			Address: "10.0.0.2:4000", Protocol: holdfastv1.Protocol_PROTOCOL_ZOOKEEPER, Name: "\x1b[31mred", Requests: 7,
			RequestsPerSecond: 5, Since: timestamppb.New(session.Epoch()),
		},
	}
	switch id := session.ID(m.GetSessionId()); {
	case id == LivingID && n.Number == 1:
		return &holdfastv1.ListConnectionsResponse{Connections: all[:1], Total: 1}, nil
	case id != 0:
		return nil, wire.Status(session.ErrNoConnection)
	}
	slices.Reverse(all)
	return &holdfastv1.ListConnectionsResponse{Connections: all[:min(len(all), int(m.GetLimit()))], Total: 2}, nil
}

// ClosedPort returns an address that refuses connections until the test ends: a bound socket that does not listen
// reserves it.
func ClosedPort(t *testing.T) string {
	t.Helper()
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(s) })
	if err = syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(s)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// HangingUp returns the address of a server that ends every connection at once.
func HangingUp(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}

// TokenText is the token of the living session.
const TokenText = "0x0100000000010007.ab0000000000000000000000000000cd.42"

// TokenFile returns a file that holds a token.
func TokenFile(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
