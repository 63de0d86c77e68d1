package clientport

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

func TestUnaryCalls(t *testing.T) {
	var resumed session.ResumeRequest
	var closed session.Token
	service := &fakeService{
		connect: func(e session.Events) error {
			if e != nil {
				t.Error("a unary call listens to events")
			}
			return nil
		},
		resume: func(_ context.Context, r session.ResumeRequest) (session.Grant, error) {
			resumed = r
			return porttest.Grant(8), nil
		},
		closing: func(_ context.Context, tok session.Token) error {
			closed = tok
			return nil
		},
	}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		o, err := c.OpenSession(t.Context(),
			&holdfastv1.OpenSessionRequest{Timeout: wire.PromiseProto(1), RequestId: make([]byte, 16)})
		got, grantErr := wire.GrantFrom(o.GetSession(), o.GetToken(), o.GetSafeFor())
		if err != nil || grantErr != nil || !reflect.DeepEqual(got, porttest.Grant(7)) {
			t.Errorf("OpenSession: %+v, %v, %v", got, err, grantErr)
		}
		r, err := c.ResumeSession(t.Context(),
			&holdfastv1.ResumeSessionRequest{
				Token: wire.TokenProto(porttest.Grant(8).Token), Instance: 3, Attempt: 4,
				SeenIndex: 5,
			})
		got, grantErr = wire.GrantFrom(r.GetSession(), r.GetToken(), r.GetSafeFor())
		if err != nil || grantErr != nil || !reflect.DeepEqual(got, porttest.Grant(8)) ||
			resumed != (session.ResumeRequest{Token: porttest.Grant(8).Token, Instance: 3, Attempt: 4, Seen: 5}) {
			t.Errorf("ResumeSession: %+v of %+v, %v, %v", got, resumed, err, grantErr)
		}
		if _, err := c.CloseSession(t.Context(),
			&holdfastv1.CloseSessionRequest{
				Token: wire.TokenProto(porttest.Grant(9).Token),
			}); err != nil || closed != porttest.Grant(9).Token {
			t.Errorf("CloseSession: %v, of %+v", err, closed)
		}
		service.closing = func(context.Context, session.Token) error { return session.ErrClosing }
		if _, err := c.CloseSession(t.Context(),
			&holdfastv1.CloseSessionRequest{Token: wire.TokenProto(porttest.Grant(9).Token)}); !errors.Is(
			wire.Domain(err), session.ErrClosing,
		) {
			t.Errorf("CloseSession: %v, want CLOSING", err)
		}
	})
	if got := service.ended(); got != 4 {
		t.Errorf("%d connections disconnected, want one a call", got)
	}
}

func TestTouchSessions(t *testing.T) {
	service := &fakeService{touchToken: func(ctx context.Context, tok session.Token) (time.Duration, error) {
		switch tok.ID {
		case 1:
			return time.Second, nil
		case 2:
			return wire.Unknown, nil
		case 3:
			return time.Second, session.ErrBadCredential
		default: // a token newer than the node: it waits as long as it may
			<-ctx.Done()
			return 0, ctx.Err()
		}
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		req := &holdfastv1.TouchSessionsRequest{}
		for _, id := range []session.ID{1, 2, 3, 4, 5, 1} {
			req.Tokens = append(req.Tokens, wire.TokenProto(porttest.Grant(id).Token))
		}
		begun := time.Now()
		answer, err := c.TouchSessions(t.Context(), req)
		if err != nil || len(answer.GetResults()) != 6 {
			t.Fatalf("got %v, %v", answer, err)
		}
		if got := time.Since(begun); got != time.Second {
			t.Errorf("two tokens newer than the node took %v, want one wait for both", got)
		}
		for i, want := range []struct {
			safe time.Duration
			err  error
		}{{time.Second, nil}, {wire.Unknown, nil}, {wire.Unknown, session.ErrBadCredential}, {
			wire.Unknown, session.ErrLagging,
		}, {wire.Unknown, session.ErrLagging}, {time.Second, nil}} {
			r := answer.GetResults()[i]
			if r.GetSessionId() != req.GetTokens()[i].GetSessionId() || wire.PromiseFrom(r.GetSafeFor()) != want.safe {
				t.Errorf("result %d: %v, want a promise of %v", i, r, want.safe)
			}
			if (r.GetError() != nil) != (want.err != nil) ||
				want.err != nil && !errors.Is(wire.FromDetail(r.GetError(), ""), want.err) {
				t.Errorf("result %d: %v, want %v", i, r.GetError(), want.err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.TouchSessions(ctx, req); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the caller's own deadline: %v", err)
		}
	})
}

func TestTouchSessionsStopsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	s := &sessionServer{limiter: ratelimit.New(ratelimit.Config{}), cfg: Config{}.withDefaults(), service: &fakeService{
		touchToken: func(context.Context, session.Token) (time.Duration, error) {
			calls++
			cancel()
			return time.Second, nil
		},
	}}
	tok := wire.TokenProto(porttest.Grant(1).Token)
	_, err := s.TouchSessions(ctx, &holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{tok, tok, tok}})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("%d tokens touched for a caller that has gone, %v", calls, err)
	}
}

func TestGetSession(t *testing.T) {
	c9 := porttest.Certificate(9)
	service := &fakeService{find: func(_ context.Context, id session.ID,
		_ session.ReadOptions,
	) (session.Listed, error) {
		switch id {
		case 7:
			return session.Listed{Session: porttest.Grant(7).Session, Remaining: time.Minute}, nil
		case 8:
			return session.Listed{Session: porttest.Grant(8).Session, Remaining: wire.Unknown}, nil
		case 9:
			return session.Listed{}, &session.ExpiredError{ID: 9, Certificate: &c9}
		default:
			return session.Listed{}, &session.ExpiredError{ID: id}
		}
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		get := func(id uint64) (*holdfastv1.GetSessionResponse, error) {
			return c.GetSession(t.Context(), &holdfastv1.GetSessionRequest{SessionId: id})
		}
		if r, err := get(7); err != nil || r.GetSession().GetId() != 7 ||
			wire.PromiseFrom(r.GetRemaining()) != time.Minute {
			t.Errorf("got %v, %v", r, err)
		}
		if r, err := get(8); err != nil || r.GetSession().GetId() != 8 || r.GetRemaining() != nil {
			t.Errorf("a session with an unknown remaining time: %v, %v", r, err)
		}
		r, err := get(9)
		if got, certErr := wire.CertificateFrom(r.GetCertificate()); err != nil || certErr != nil || !got.Equal(c9) ||
			r.GetRemaining() != nil {
			t.Errorf("an ended session: %v, %v", r, err)
		}
		if _, err := get(10); status.Code(err) != codes.NotFound || !errors.Is(wire.Domain(err), session.ErrExpired) {
			t.Errorf("an unknown session: %v", err)
		}
	})
}

func TestListSessions(t *testing.T) {
	var page session.Page
	var asked session.Query
	service := &fakeService{list: func(_ context.Context, q session.Query) (session.Page, error) {
		asked = q
		return page, nil
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		list := func(token string) *holdfastv1.ListSessionsResponse {
			t.Helper()
			r, err := c.ListSessions(t.Context(), &holdfastv1.ListSessionsRequest{PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		page = session.Page{
			Sessions: []session.Listed{{Session: porttest.Grant(7).Session, Remaining: wire.Unknown}},
			Next:     7,
		}
		first := list("")
		if len(first.GetSessions()) != 1 || first.GetSessions()[0].GetRemaining() != nil || asked.After != 0 ||
			asked.Size != defaultPage {
			t.Errorf("got %v for %+v", first, asked)
		}
		page = session.Page{}
		if last := list(first.GetNextPageToken()); asked.After != 7 || last.GetNextPageToken() != "" {
			t.Errorf("the second page was asked after %v and says %v", asked.After, last)
		}
		// Sessions with many labels: the page is cut where the message would become too large.
		large := porttest.Grant(1).Session
		large.Labels = nil
		for k := range session.MaxLabels {
			large.Labels = append(large.Labels,
				session.Label{Key: string(rune('a' + k)), Value: strings.Repeat("v", session.MaxLabelValue)})
		}
		for id := range session.ID(session.MaxPage) {
			large.ID = id + 1
			page.Sessions = append(page.Sessions, session.Listed{Session: large})
		}
		soonest, err := c.ListSessions(t.Context(), &holdfastv1.ListSessionsRequest{
			Order: holdfastv1.SessionOrder_SESSION_ORDER_REMAINING,
		})
		if err != nil || !asked.Soonest || len(soonest.GetSessions()) == 0 || soonest.GetNextPageToken() != "" {
			t.Errorf("the soonest to expire: %v, asked for %+v, and more after %q; want one page", err, asked,
				soonest.GetNextPageToken())
		}
		cut := list("")
		if asked.Soonest {
			t.Error("a list by id was asked for as one of the soonest to expire")
		}
		n := len(cut.GetSessions())
		if size := proto.Size(cut); n == 0 || n == session.MaxPage || size > wire.DefaultMessageBytes+16<<10 {
			t.Errorf("a page of %d sessions and %d bytes", n, size)
		}
		if list(cut.GetNextPageToken()); asked.After != session.ID(n) {
			t.Errorf("the next page begins after %v, want after %d", asked.After, n)
		}
	})
}

func TestClusterHealthAndReflection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{state: func() session.NodeState { return session.NodeState{Cluster: 21} }}
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		conn := dialPipes(t, network)
		cluster := holdfastv1.NewClusterServiceClient(conn)
		st, err := cluster.GetStatus(t.Context(), &holdfastv1.GetStatusRequest{})
		want := &holdfastv1.GetStatusResponse{
			Id: 1, ClusterId: "c", Role: holdfastv1.Role_ROLE_LEADER, Term: 2, Leader: 3, LeaderAddress: "n3:7400",
			CommitIndex: 4, AppliedIndex: 5, Cluster: 21,
			SessionsGlobal: 6, SessionsLocal: 7, SessionsAttached: 8, Ready: true, NotReadyBecause: "x", Warning: "w",
			StateDigest: "ab", Version: "v",
			Mode:         holdfastv1.Mode_MODE_READ_ONLY,
			FeatureLevel: 1, TreeEntries: 9, TreeEphemerals: 10, TreeBytes: 11, Watches: 12,
			Turnover: &holdfastv1.Turnover{
				Opens: 15, Moves: 16, Closes: 17, Expiries: 18, Kills: 19, TreeWrites: 20,
			},
		}
		if err != nil || !proto.Equal(st, want) {
			t.Errorf("GetStatus: %v, %v, want %v", st, err, want)
		}
		members, err := cluster.ListMembers(t.Context(), &holdfastv1.ListMembersRequest{})
		wantMember := &holdfastv1.Member{
			Id: 2, Voter: true, Leader: true, ClientAddress: "c", RaftAddress: "r",
			PeerAddress: "p",
		}
		if err != nil || len(members.GetMembers()) != 1 || !proto.Equal(members.GetMembers()[0], wantMember) {
			t.Errorf("ListMembers: %v, %v", members, err)
		}
		health := healthpb.NewHealthClient(conn)
		check := func(service string, want healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			got, checkErr := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if checkErr != nil || got.GetStatus() != want {
				t.Errorf("health of %q: %v, %v, want %v", service, got, checkErr, want)
			}
		}
		check(HealthNode, healthpb.HealthCheckResponse_NOT_SERVING)
		check(HealthLeader, healthpb.HealthCheckResponse_NOT_SERVING)
		s.SetServing(HealthLeader, true)
		check(HealthLeader, healthpb.HealthCheckResponse_SERVING)
		check(HealthNode, healthpb.HealthCheckResponse_NOT_SERVING)
		s.SetServing(HealthLeader, false)
		check(HealthLeader, healthpb.HealthCheckResponse_NOT_SERVING)
		// A watch and a reflection stream stay open: the port's end must not wait for them.
		if _, err = health.Watch(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
		r, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ask := &reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
		}
		if err = r.Send(ask); err != nil {
			t.Fatal(err)
		}
		answer, err := r.Recv()
		if n := len(answer.GetListServicesResponse().GetService()); err != nil || n < 4 {
			t.Errorf("reflection: %v, %v", answer, err)
		}
	})
}

func TestRoles(t *testing.T) {
	for r, want := range map[Role]holdfastv1.Role{
		RoleLeader: holdfastv1.Role_ROLE_LEADER, RoleFollower: holdfastv1.Role_ROLE_FOLLOWER,
		RoleObserver: holdfastv1.Role_ROLE_OBSERVER, RoleCandidate: holdfastv1.Role_ROLE_CANDIDATE, 0: 0,
	} {
		if got := roleProto(r); got != want {
			t.Errorf("role %d is %v, want %v", r, got, want)
		}
	}
	if _, err := (&clusterServer{cluster: fakeCluster{err: session.ErrStopping}}).GetStatus(t.Context(),
		nil); !errors.Is(err, session.ErrStopping) {
		t.Errorf("got %v", err)
	}
}
