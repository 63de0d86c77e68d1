package fakenode

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// Operator is a node with the calls of operators. It knows the sessions of a [Node].
type Operator struct {
	holdfastv1.UnimplementedAdminServiceServer
	*Node
	AdminMu sync.Mutex
	// Kills are the requests to end sessions. guarded by AdminMu
	Kills []*holdfastv1.KillSessionsRequest
	// DeathFilter is that of the newest list of deaths. guarded by AdminMu
	DeathFilter *holdfastv1.DeathFilter
	// Frozen is the newest requested freeze, Extended are the extensions. guarded by AdminMu
	Frozen   *holdfastv1.FreezeExpiryRequest
	Extended []*holdfastv1.ExtendSessionRequest
	// Alone: ListMembers lists the node at its own address. guarded by AdminMu
	Alone bool
	// DeadMember is the address of a further member, where no node listens; empty for none. guarded by AdminMu
	DeadMember string
	// OnKill is called once a request to end sessions is there; nil calls nothing. Its error is the answer. guarded by
	// AdminMu
	OnKill func() error
}

// ListMembers lists the node at its own address, or members that do not exist.
func (o *Operator) ListMembers(ctx context.Context,
	r *holdfastv1.ListMembersRequest,
) (*holdfastv1.ListMembersResponse, error) {
	o.AdminMu.Lock()
	defer o.AdminMu.Unlock()
	if !o.Alone {
		return o.Node.ListMembers(ctx, r)
	}
	members := []*holdfastv1.Member{{Id: o.Number, ClientAddress: o.Address}}
	if o.DeadMember != "" {
		members = append(members, &holdfastv1.Member{Id: 2, ClientAddress: o.DeadMember})
	}
	return &holdfastv1.ListMembersResponse{Members: members}, nil
}

// StartOperator starts the node.
func StartOperator(t *testing.T) *Operator {
	t.Helper()
	o := &Operator{Node: &Node{Number: 1}}
	o.Address = Serve(t, func(server *grpc.Server) {
		holdfastv1.RegisterSessionServiceServer(server, o.Node)
		holdfastv1.RegisterClusterServiceServer(server, o)
		holdfastv1.RegisterAdminServiceServer(server, o)
	})
	t.Setenv("HOLDFAST_ENDPOINTS", o.Address)
	return o
}

// Death is the certificate of the ended session.
func Death() session.Certificate {
	return session.Certificate{
		ID: EndedID, Cause: session.CauseExpired, LastTouchAge: 12_300 * time.Millisecond, Owner: 2, Term: 7, Index: 99,
		Credited: 1500 * time.Millisecond, EndedAt: session.Epoch().Add(time.Hour),
		Left: session.Left{Instance: 3, Applied: 9, Ephemerals: 2, Will: tree.WillCarriedOut},
		Story: session.Story{
			Spec:     session.Spec{Timeout: 10 * time.Second, Labels: session.Labels{{Key: "service", Value: "web"}}},
			OpenedAt: session.Epoch(),
			Late:     251 * time.Millisecond, Credit: 2 * time.Second, Silent: 11 * time.Second,
		},
	}
}

// ExplainSession explains the two sessions.
func (o *Operator) ExplainSession(_ context.Context,
	r *holdfastv1.ExplainSessionRequest,
) (*holdfastv1.ExplainSessionResponse, error) {
	switch session.ID(r.GetSessionId()) {
	case LivingID:
		return &holdfastv1.ExplainSessionResponse{
			State: ReadWrite(), Session: wire.SessionProto(Living()), Vigil: wire.VigilProto(&session.Vigil{
				Leader: 3, Term: 7, Led: time.Minute, Remaining: 8 * time.Second, LastTouchAge: 2100 * time.Millisecond,
				VouchedAge: time.Minute, Credit: 50 * time.Millisecond,
			}),
		}, nil
	case EndedID:
		return &holdfastv1.ExplainSessionResponse{Certificate: wire.CertificateProto(Death()), State: ReadWrite()}, nil
	default:
		return nil, wire.Status(&session.ExpiredError{ID: session.ID(r.GetSessionId())})
	}
}

// ListDeaths lists death certificates.
func (o *Operator) ListDeaths(_ context.Context,
	r *holdfastv1.ListDeathsRequest,
) (*holdfastv1.ListDeathsResponse, error) {
	o.AdminMu.Lock()
	o.DeathFilter = r.GetFilter()
	o.AdminMu.Unlock()
	if r.GetPageToken() == "" {
		return &holdfastv1.ListDeathsResponse{
			Certificates: []*holdfastv1.Certificate{wire.CertificateProto(Death())}, NextPageToken: "more",
			State: ReadWrite(),
		}, nil
	}
	killed := Death()
	killed.ID, killed.Cause, killed.Story.By, killed.Story.Why = 7, session.CauseKilled, "ops", "a, \"b\"\x1b[31m"
	return &holdfastv1.ListDeathsResponse{
		Certificates: []*holdfastv1.Certificate{wire.CertificateProto(killed)}, Forgotten: true,
		State: ReadWrite(),
	}, nil
}

// KillSessions records the request and answers for each session.
func (o *Operator) KillSessions(_ context.Context,
	r *holdfastv1.KillSessionsRequest,
) (*holdfastv1.KillSessionsResponse, error) {
	o.AdminMu.Lock()
	defer o.AdminMu.Unlock()
	o.Kills = append(o.Kills, r)
	if o.OnKill != nil {
		return nil, o.OnKill()
	}
	answer := &holdfastv1.KillSessionsResponse{}
	for _, id := range r.GetIds() {
		one := &holdfastv1.KillResult{SessionId: id}
		switch {
		case session.ID(id) == EndedID:
			one.Error = wire.Detail(&session.ExpiredError{ID: EndedID, Certificate: new(Death())})
		case id == 5:
			one.Error = wire.Detail(session.ErrClosing)
		case id == 6:
			one.Error = wire.Detail(session.ErrOutcomeUnknown)
		default:
			one.Index = 100
		}
		answer.Results = append(answer.Results, one)
	}
	return answer, nil
}

// ExtendSession records the request.
func (o *Operator) ExtendSession(_ context.Context,
	r *holdfastv1.ExtendSessionRequest,
) (*holdfastv1.ExtendSessionResponse, error) {
	o.AdminMu.Lock()
	defer o.AdminMu.Unlock()
	o.Extended = append(o.Extended, r)
	return &holdfastv1.ExtendSessionResponse{Index: 102}, nil
}

// FreezeExpiry records the request.
func (o *Operator) FreezeExpiry(_ context.Context,
	r *holdfastv1.FreezeExpiryRequest,
) (*holdfastv1.FreezeExpiryResponse, error) {
	o.AdminMu.Lock()
	defer o.AdminMu.Unlock()
	o.Frozen = r
	return &holdfastv1.FreezeExpiryResponse{Index: 100}, nil
}

// ThawExpiry records the call.
func (o *Operator) ThawExpiry(context.Context, *holdfastv1.ThawExpiryRequest) (*holdfastv1.ThawExpiryResponse, error) {
	o.AdminMu.Lock()
	defer o.AdminMu.Unlock()
	o.Frozen = nil
	return &holdfastv1.ThawExpiryResponse{Index: 101}, nil
}
