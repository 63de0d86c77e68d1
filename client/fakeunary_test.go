package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// scripted records a unary call and returns the error of the node's script.
func (n *fakeNode) scripted(kind string) error {
	var script func(string) error
	n.c.set(func() {
		n.got = append(n.got, kind)
		script = n.script
	})
	if script == nil {
		return nil
	}
	return wire.Status(script(kind))
}

func (n *fakeNode) GetSession(_ context.Context,
	m *holdfastv1.GetSessionRequest,
) (*holdfastv1.GetSessionResponse, error) {
	if err := n.scripted("get"); err != nil {
		return nil, err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if err := n.unreadable(m.GetSeenIndex(), m.GetAllowReadOnly()); err != nil {
		return nil, n.refusal(err)
	}
	id := session.ID(m.GetSessionId())
	if s := n.c.sessions[id]; s != nil && s.Local && s.Owner != n.number {
		return nil, wire.Status(&session.ExpiredError{ID: id, LocalTo: s.Owner})
	} else if s != nil {
		return &holdfastv1.GetSessionResponse{
			Result:    &holdfastv1.GetSessionResponse_Session{Session: wire.SessionProto(s.Session)},
			Remaining: wire.PromiseProto(time.Second),
			State:     n.stateProto(),
		}, nil
	}
	if cert, ok := n.c.ended[id]; ok {
		return &holdfastv1.GetSessionResponse{
			Result: &holdfastv1.GetSessionResponse_Certificate{Certificate: wire.CertificateProto(cert)},
			State:  n.stateProto(),
		}, nil
	}
	return nil, n.refusal(&session.ExpiredError{ID: id})
}

// WatchSessions streams the cluster's events for watches of sessions.
func (n *fakeNode) WatchSessions(_ *holdfastv1.WatchSessionsRequest,
	stream grpc.ServerStreamingServer[holdfastv1.WatchSessionsResponse],
) error {
	if err := n.scripted("watch sessions"); err != nil {
		return err
	}
	n.c.mu.Lock()
	told := n.c.told
	n.c.mu.Unlock()
	for _, e := range told {
		if err := stream.Send(wire.SessionEventProto(e)); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// refusal returns the status of err, with the node's reported state. The caller holds mu.
func (n *fakeNode) refusal(err error) error {
	d := wire.Detail(err)
	d.State = n.stateProto()
	with, detailErr := status.New(wire.Code(err), wire.Text(err)).WithDetails(d)
	if detailErr != nil {
		n.c.t.Error(detailErr)
	}
	return with.Err()
}

func (n *fakeNode) ListSessions(_ context.Context,
	m *holdfastv1.ListSessionsRequest,
) (*holdfastv1.ListSessionsResponse, error) {
	if err := n.scripted("list " + m.GetPageToken()); err != nil {
		return nil, err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if err := n.unreadable(m.GetSeenIndex(), m.GetAllowReadOnly()); err != nil {
		return nil, n.refusal(err)
	}
	answer := &holdfastv1.ListSessionsResponse{NextPageToken: m.GetPageToken() + "+", State: n.stateProto()}
	for _, s := range n.c.sessions {
		if owner := m.GetFilter().GetOwner(); (owner == 0 || owner == uint32(s.Owner)) &&
			(m.GetFilter().GetScope() != holdfastv1.Scope_SCOPE_LOCAL || s.Local) {
			answer.Sessions = append(answer.Sessions, &holdfastv1.ListedSession{Session: wire.SessionProto(s.Session)})
		}
	}
	return answer, nil
}

func (n *fakeNode) CloseSession(_ context.Context,
	m *holdfastv1.CloseSessionRequest,
) (*holdfastv1.CloseSessionResponse, error) {
	scripted := n.scripted("close")
	if scripted != nil && !errors.Is(wire.Domain(scripted), session.ErrOutcomeUnknown) {
		return nil, scripted
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if err := n.close(m.GetToken()); err != nil {
		return nil, wire.Status(err)
	}
	return &holdfastv1.CloseSessionResponse{}, scripted
}

func (n *fakeNode) UpgradeSession(_ context.Context,
	m *holdfastv1.UpgradeSessionRequest,
) (*holdfastv1.UpgradeSessionResponse, error) {
	if err := n.scripted("upgrade"); err != nil {
		return nil, err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	s, err := n.upgrade(m.GetToken())
	if err != nil {
		return nil, wire.Status(err)
	}
	return &holdfastv1.UpgradeSessionResponse{
		Session: wire.SessionProto(s.Session), Token: fakeToken(s), SafeFor: wire.PromiseProto(promised(s.Timeout)),
	}, nil
}

func (n *fakeNode) TouchSessions(_ context.Context,
	m *holdfastv1.TouchSessionsRequest,
) (*holdfastv1.TouchSessionsResponse, error) {
	if err := n.scripted("touch"); err != nil {
		return nil, err
	}
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	answer := &holdfastv1.TouchSessionsResponse{}
	for _, p := range m.GetTokens() {
		s, err := n.c.find(p)
		if err == nil && (s.Owner != n.number || s.Local != p.GetLocal()) {
			err = session.ErrMoved
		}
		r := &holdfastv1.TouchResult{SessionId: p.GetSessionId(), Error: wire.Detail(err)}
		if err == nil {
			r.SafeFor = wire.PromiseProto(promised(s.Timeout))
		}
		answer.Results = append(answer.Results, r)
	}
	return answer, nil
}

func (n *fakeNode) GetStatus(ctx context.Context,
	_ *holdfastv1.GetStatusRequest,
) (*holdfastv1.GetStatusResponse, error) {
	n.heard(ctx)
	var state session.NodeState
	n.c.set(func() { state = n.state })
	return &holdfastv1.GetStatusResponse{
		Id: uint32(n.number), Role: holdfastv1.Role_ROLE_FOLLOWER, Term: 5, Leader: 2,
		AppliedIndex: cmp.Or(state.Index, 66), Cluster: state.Cluster,
	}, n.scripted("status")
}

func (n *fakeNode) ListMembers(context.Context,
	*holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	answer := &holdfastv1.ListMembersResponse{}
	for i := range len(n.c.nodes) {
		m := n.c.node(i + 1)
		if m.number == n.c.left {
			continue
		}
		answer.Members = append(answer.Members,
			&holdfastv1.Member{Id: uint32(m.number), Voter: true, Leader: i == 1, ClientAddress: m.address})
	}
	return answer, n.scripted("members")
}

// heard notes the client name of a call.
func (n *fakeNode) heard(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	n.c.set(func() { n.clientNames = append(n.clientNames, md.Get("holdfast-client-name")...) })
}
