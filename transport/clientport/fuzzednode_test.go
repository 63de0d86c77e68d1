package clientport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// requestsOf returns requests of a call. The first one is valid.
func requestsOf(name string) []proto.Message {
	token, id := wire.TokenProto(porttest.Grant(7).Token), make([]byte, 16)
	large := map[string]string{"a": strings.Repeat("b", maxFuzzedBytes)}
	if all := treeRequestsOf(name); all != nil {
		return all
	}
	return map[string][]proto.Message{
		holdfastv1.SessionService_OpenSession_FullMethodName: {
			&holdfastv1.OpenSessionRequest{
				Timeout: wire.PromiseProto(time.Second), RequestId: id, Labels: map[string]string{"a": "b"},
			},
			&holdfastv1.OpenSessionRequest{Timeout: wire.PromiseProto(time.Second), RequestId: id, Labels: large},
			&holdfastv1.OpenSessionRequest{Timeout: porttest.BadDuration(), RequestId: id, Local: true},
		},
		holdfastv1.SessionService_ResumeSession_FullMethodName: {
			&holdfastv1.ResumeSessionRequest{Token: token, Instance: 1, Attempt: 1, SeenIndex: 1 << 63},
			&holdfastv1.ResumeSessionRequest{Token: token, Instance: 1},
		},
		holdfastv1.SessionService_TouchSessions_FullMethodName: {
			&holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token, token}},
			&holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token, {}}},
		},
		holdfastv1.SessionService_UpgradeSession_FullMethodName: {
			&holdfastv1.UpgradeSessionRequest{Token: token},
			&holdfastv1.UpgradeSessionRequest{Token: &holdfastv1.Token{SessionId: 7, Credential: id, Local: true}},
		},
		holdfastv1.ClusterService_DrainNode_FullMethodName: {
			&holdfastv1.DrainNodeRequest{Node: 3}, &holdfastv1.DrainNodeRequest{Node: 1<<32 - 1, Force: true},
		},
		holdfastv1.ClusterService_UndrainNode_FullMethodName: {
			&holdfastv1.UndrainNodeRequest{Node: 3}, &holdfastv1.UndrainNodeRequest{},
		},
		holdfastv1.ClusterService_AddMember_FullMethodName: {
			&holdfastv1.AddMemberRequest{Member: &holdfastv1.MemberPlace{
				Node: 4, RaftAddress: "n4:7401", PeerAddress: "n4:7402", ClientAddress: "n4:7400",
			}}, &holdfastv1.AddMemberRequest{},
		},
		holdfastv1.ClusterService_PromoteMember_FullMethodName: {
			&holdfastv1.PromoteMemberRequest{Node: 4}, &holdfastv1.PromoteMemberRequest{Node: 255},
		},
		holdfastv1.ClusterService_DemoteMember_FullMethodName: {
			&holdfastv1.DemoteMemberRequest{Node: 4}, &holdfastv1.DemoteMemberRequest{Node: 1<<32 - 1},
		},
		holdfastv1.ClusterService_RemoveMember_FullMethodName: {
			&holdfastv1.RemoveMemberRequest{Node: 4}, &holdfastv1.RemoveMemberRequest{},
		},
		holdfastv1.ClusterService_TransferLeadership_FullMethodName: {
			&holdfastv1.TransferLeadershipRequest{}, &holdfastv1.TransferLeadershipRequest{Node: 1<<32 - 1},
		},
		holdfastv1.SessionService_CloseSession_FullMethodName: {&holdfastv1.CloseSessionRequest{Token: token}},
		holdfastv1.SessionService_GetSession_FullMethodName: {
			&holdfastv1.GetSessionRequest{SessionId: 7, AllowReadOnly: true, SeenIndex: 9},
		},
		holdfastv1.SessionService_ListSessions_FullMethodName: {
			&holdfastv1.ListSessionsRequest{PageSize: 10, PageToken: pageToken(9), AllowReadOnly: true, SeenIndex: 9},
			&holdfastv1.ListSessionsRequest{
				PageSize: session.MaxPage,
				Filter: &holdfastv1.SessionFilter{
					Owner: 3, MinAge: wire.PromiseProto(time.Second), MaxRemaining: porttest.BadDuration(),
					Labels: map[string]string{"a": ""},
				},
			},
			&holdfastv1.ListSessionsRequest{PageSize: session.MaxPage},
		},
		holdfastv1.ClusterService_GetStatus_FullMethodName:   {&holdfastv1.GetStatusRequest{}},
		holdfastv1.ClusterService_ListMembers_FullMethodName: {&holdfastv1.ListMembersRequest{}},
		holdfastv1.ClusterService_ListConnections_FullMethodName: {
			&holdfastv1.ListConnectionsRequest{Limit: 3, Principal: "ip:"}, &holdfastv1.ListConnectionsRequest{},
		},
		holdfastv1.IdService_AllocateIds_FullMethodName: {
			&holdfastv1.AllocateIdsRequest{Count: session.MaxClaim},
			&holdfastv1.AllocateIdsRequest{Count: session.MaxClaim + 1},
		},
	}[name]
}

// nobodysBusiness is an error text that only the node's log may show.
const nobodysBusiness = "raft at 10.0.0.1"

// unaryOutcomes returns the outcomes of a request at the node: success, each of the domain's errors, and errors outside
// the domain.
func unaryOutcomes() []error {
	c := porttest.Certificate(7)
	outcomes := []error{
		nil,
		&session.ExpiredError{ID: 7, Certificate: &c},
		&session.ExpiredError{ID: 7, LocalTo: 3},
		&session.AppliedError{Err: &session.ExpiredError{ID: 7, Certificate: &c}},
		&session.NotLeaderError{Leader: 3, Address: "n3:7400"},
		&session.LimitError{Name: "n", Limit: "9 of them", RetryAfter: time.Second},
		session.ErrClosed,
		fmt.Errorf("%s: %w", nobodysBusiness, context.DeadlineExceeded),
		fmt.Errorf("%s: %w", nobodysBusiness, session.ErrNoLeader),
		errors.New(nobodysBusiness),
	}
	for _, m := range wire.Mappings() {
		outcomes = append(outcomes, m.Sentinel)
	}
	return append(outcomes, treeOutcomes()...)
}

// largePage returns the largest page that a node can have, of sessions with the most and longest labels, which share
// one set. The answer must be cut.
func largePage() session.Page {
	labels := make(session.Labels, session.MaxLabels)
	for i := range labels {
		labels[i] = session.Label{
			Key: fmt.Sprintf("%0*d", session.MaxLabelKey, i), Value: strings.Repeat("v", session.MaxLabelValue),
		}
	}
	page := session.Page{Sessions: make([]session.Listed, session.MaxPage)}
	for i := range page.Sessions {
		page.Sessions[i].Session = porttest.Grant(session.ID(i + 1)).Session
		page.Sessions[i].Session.Labels = labels
	}
	return page
}

// answering is a node that gives every request the same outcome, and notes requests that should not have reached it.
type answering struct {
	*fakeService
	outcome error
	asked   int
	wrong   string
	log     porttest.LogBuffer
}

func newAnswering(page session.Page, outcome error) *answering {
	a := &answering{outcome: outcome}
	a.fakeService = &fakeService{
		state: func() session.NodeState { return porttest.StateOf(3) },
		open: func(_ context.Context, o session.OpenRequest) (session.Grant, error) {
			return porttest.Grant(7), a.hear(o, o.Timeout > 0 && o.Labels.Check() == nil)
		},
		resume: func(_ context.Context, r session.ResumeRequest) (session.Grant, error) {
			return porttest.Grant(r.Token.ID), a.hear(r, r.Instance != 0 && r.Attempt != 0 && r.Token.ID != 0 &&
				r.Token.Attachment != 0)
		},
		touchToken: func(_ context.Context, t session.Token) (time.Duration, error) {
			return time.Second, a.hear(t, t.ID != 0 && t.Attachment != 0)
		},
		closing: func(_ context.Context, t session.Token) error { return a.hear(t, t.ID != 0 && t.Attachment != 0) },
		upgrade: func(_ context.Context, t session.Token) (session.Grant, error) {
			return porttest.Grant(t.ID), a.hear(t, t.ID != 0 && t.Attachment != 0)
		},
		find: func(_ context.Context, id session.ID, _ session.ReadOptions) (session.Listed, error) {
			return session.Listed{Session: porttest.Grant(id).Session}, a.hear(id, id != 0)
		},
		list: func(_ context.Context, q session.Query) (session.Page, error) {
			fits := q.Size >= 1 && q.Size <= session.MaxPage && q.Filter.MinRemaining >= 0 &&
				q.Filter.MaxRemaining >= 0 &&
				(q.Filter.Owner == 0 || q.Filter.Owner.Valid()) && q.Filter.Labels.Check() == nil
			size := min(max(q.Size, 0), len(page.Sessions))
			return session.Page{Sessions: page.Sessions[:size], Next: session.ID(size)}, a.hear(q, fits)
		},
		allocate: func(_ context.Context, r session.ClaimRequest) (session.ID, error) {
			return 5, a.hear(r, session.CheckClaim(r.Count) == nil)
		},
	}
	withTree(a.fakeService, a.tree)
	return a
}

// hear records a request and returns the outcome.
func (a *answering) hear(what any, fits bool) error { //nolint:revive // flag-parameter: the verdict on the request
	a.asked++
	if !fits {
		a.wrong = fmt.Sprintf("%+v", what)
	}
	return a.outcome
}

// Status returns the node's status, or the outcome.
func (a *answering) Status(ctx context.Context) (NodeStatus, error) {
	a.asked++
	return fakeCluster{a.outcome}.Status(ctx)
}

// Drain returns a running drain, or the outcome.
func (a *answering) Drain(context.Context, bool) (DrainStatus, error) {
	a.asked++
	if a.outcome != nil {
		return DrainStatus{}, a.outcome
	}
	return DrainStatus{Since: session.Epoch(), Connections: 1, Sessions: 2, Local: 3, Leads: true}, nil
}

// Undrain returns that the node was being drained, or the outcome.
func (a *answering) Undrain() (bool, error) {
	a.asked++
	return true, a.outcome
}

// changed returns the outcome of a change of the members.
func (a *answering) changed() error {
	a.asked++
	return a.outcome
}

// changing are the changes of the members of a node that answers.
type changing struct{ *answering }

func (c changing) Add(context.Context, session.MemberPlace) error { return c.changed() }
func (c changing) Promote(context.Context, session.Node) error    { return c.changed() }
func (c changing) Demote(context.Context, session.Node) error     { return c.changed() }
func (c changing) Remove(context.Context, session.Node) error     { return c.changed() }
func (c changing) Transfer(context.Context, session.Node) error   { return c.changed() }
func (c changing) Confirm(context.Context) error                  { return c.changed() }

// Members returns the node's members.
func (a *answering) Members() []Member { return fakeCluster{}.Members() }

// unaryCall is a unary call of the port: its generated handler, and its server.
type unaryCall struct {
	grpc.MethodDesc
	server any
	port   *port.Port
}

// newUnaryCalls returns the unary calls of a port before node, by name. It reads them from the services' descriptors,
// so that a call added later is called too.
func newUnaryCalls(node *answering) map[string]unaryCall {
	cfg := Config{}.withDefaults()
	p := port.New(port.Config{
		Logger: hclog.New(&hclog.LoggerOptions{Output: &node.log, Level: hclog.Error}),
		Limits: port.Limits{MessageBytes: maxFuzzedBytes},
		State:  func() *holdfastv1.NodeState { return wire.StateProto(node.State()) },
	})
	sessions := &sessionServer{cfg: cfg, service: node, port: p, limiter: ratelimit.New(ratelimit.Config{}), stats: &counters{}}
	servers := map[*grpc.ServiceDesc]any{
		&holdfastv1.SessionService_ServiceDesc: sessions,
		&holdfastv1.TreeService_ServiceDesc:    &treeServer{node: sessions},
		&holdfastv1.ClusterService_ServiceDesc: &clusterServer{
			cluster: node, drains: node, node: &sessionServer{cfg: cfg, service: node},
			memberActs: memberActs{members: changing{node}},
		},
		&holdfastv1.IdService_ServiceDesc: &idServer{clock: cfg.Clock, service: node},
	}
	calls := map[string]unaryCall{}
	for desc, server := range servers {
		for _, m := range desc.Methods {
			calls["/"+desc.ServiceName+"/"+m.MethodName] = unaryCall{MethodDesc: m, server: server, port: p}
		}
	}
	return calls
}

// checkUnaryCalls fails when a complete client port has other unary calls than these, except those of gRPC's own
// services: a service added later would not be called.
func checkUnaryCalls(tb testing.TB, calls map[string]unaryCall) {
	tb.Helper()
	production := New(Config{}, &fakeService{}, fakeCluster{}).port
	served := 0
	for service, desc := range production.GetServiceInfo() {
		for _, m := range desc.Methods {
			name := "/" + service + "/" + m.Name
			if !wire.Ours(name) || m.IsClientStream || m.IsServerStream {
				continue
			}
			if served++; calls[name].Handler == nil {
				tb.Fatalf("%s is not fuzzed", name)
			}
		}
	}
	if served != len(calls) {
		tb.Fatalf("%d unary calls are fuzzed, but %d served", len(calls), served)
	}
	if err := production.Halt(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}
