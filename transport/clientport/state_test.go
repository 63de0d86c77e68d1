package clientport

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

// applying is a service whose index rises with each request.
type applying struct {
	fakeService
	index atomic.Uint64
	read  session.ReadOptions
}

func newApplying() *applying {
	a := &applying{}
	granted := func() (session.Grant, error) { a.index.Add(1); return porttest.Grant(7), nil }
	a.fakeService = fakeService{
		state:  func() session.NodeState { return porttest.StateOf(a.index.Load()) },
		open:   func(context.Context, session.OpenRequest) (session.Grant, error) { return granted() },
		resume: func(context.Context, session.ResumeRequest) (session.Grant, error) { return granted() },
		touch:  func([]session.ID) session.Touched { a.index.Add(1); return session.Touched{SafeFor: wire.Unknown} },
		touchToken: func(context.Context, session.Token) (time.Duration, error) {
			a.index.Add(1)
			return wire.Unknown, nil
		},
		closing: func(context.Context, session.Token) error { a.index.Add(1); return nil },
		upgrade: func(context.Context, session.Token) (session.Grant, error) { return granted() },
		find: func(_ context.Context, id session.ID, o session.ReadOptions) (session.Listed, error) {
			a.index.Add(1)
			a.read = o
			c := porttest.Certificate(id)
			switch id {
			case 7:
				return session.Listed{Session: porttest.Grant(id).Session, Remaining: wire.Unknown}, nil
			case 8:
				return session.Listed{}, &session.ExpiredError{ID: id, Certificate: &c}
			default:
				return session.Listed{}, session.ErrLagging
			}
		},
		list: func(_ context.Context, q session.Query) (session.Page, error) {
			a.index.Add(1)
			a.read = q.Read
			return session.Page{}, nil
		},
		allocate: func(context.Context, session.ClaimRequest) (session.ID, error) { a.index.Add(1); return 5, nil },
	}
	return a
}

// Every answer to a unary call carries the node's state, with the index read after what the answer shows.
func TestN4IndexOfUnaryAnswersIsReadLast(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newApplying()
		network := porttest.NewPipes()
		port := New(Config{}, service, fakeCluster{})
		served := make(chan error, 1)
		go func() { served <- port.Serve(network) }()
		defer func() { _ = port.Stop(t.Context()); <-served }()
		conn := dialPipes(t, network)
		c, ids := holdfastv1.NewSessionServiceClient(conn), holdfastv1.NewIdServiceClient(conn)
		token := wire.TokenProto(porttest.Grant(7).Token)
		type answer interface{ GetState() *holdfastv1.NodeState }
		for name, call := range map[string]func() (answer, error){
			"open": func() (answer, error) {
				return c.OpenSession(t.Context(),
					&holdfastv1.OpenSessionRequest{Timeout: wire.PromiseProto(1), RequestId: make([]byte, 16)})
			},
			"resume": func() (answer, error) {
				return c.ResumeSession(t.Context(),
					&holdfastv1.ResumeSessionRequest{Token: token, Instance: 1, Attempt: 1})
			},
			"touch": func() (answer, error) {
				return c.TouchSessions(t.Context(),
					&holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token}})
			},
			"upgrade": func() (answer, error) {
				return c.UpgradeSession(t.Context(), &holdfastv1.UpgradeSessionRequest{Token: token})
			},
			"close": func() (answer, error) {
				return c.CloseSession(t.Context(), &holdfastv1.CloseSessionRequest{Token: token})
			},
			"get": func() (answer, error) {
				return c.GetSession(t.Context(), &holdfastv1.GetSessionRequest{SessionId: 7})
			},
			"get of an ended one": func() (answer, error) {
				return c.GetSession(t.Context(), &holdfastv1.GetSessionRequest{SessionId: 8})
			},
			"list": func() (answer, error) {
				return c.ListSessions(t.Context(), &holdfastv1.ListSessionsRequest{})
			},
			"allocate": func() (answer, error) {
				return ids.AllocateIds(t.Context(), &holdfastv1.AllocateIdsRequest{Count: 1})
			},
		} {
			a, err := call()
			if got := wire.StateFrom(a.GetState()); err != nil || got != porttest.StateOf(service.index.Load()) {
				t.Errorf("%s tells %+v, %v; want the index after it, %d", name, got, err, service.index.Load())
			}
		}

		_, err := c.GetSession(t.Context(),
			&holdfastv1.GetSessionRequest{SessionId: 9, AllowReadOnly: true, SeenIndex: 77})
		if got := wire.StateOf(err); !errors.Is(wire.Domain(err), session.ErrLagging) ||
			got != porttest.StateOf(service.index.Load()) {
			t.Errorf("a refusal %v tells %+v", err, got)
		}
		if want := (session.ReadOptions{AllowReadOnly: true, Seen: 77}); service.read != want {
			t.Errorf("read with %+v, want %+v", service.read, want)
		}
		_, err = c.ListSessions(t.Context(), &holdfastv1.ListSessionsRequest{AllowReadOnly: true, SeenIndex: 78})
		if want := (session.ReadOptions{AllowReadOnly: true, Seen: 78}); err != nil || service.read != want {
			t.Errorf("listed with %+v, %v; want %+v", service.read, err, want)
		}
		_, err = c.GetSession(t.Context(), &holdfastv1.GetSessionRequest{})
		if got := wire.StateOf(err); status.Code(err) != codes.InvalidArgument ||
			!errors.Is(wire.Domain(err), session.ErrInvalid) || got.Node != 3 {
			t.Errorf("a refusal %v tells %+v", err, got)
		}
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "none"})
		if got := wire.StateOf(err); status.Code(err) != codes.NotFound || got != (session.NodeState{}) {
			t.Errorf("the health service's refusal %v tells %+v", err, got)
		}
	})
}

// Refusals of ClusterService carry no state: its answers describe the node themselves (N1 node mode).
func TestN1RefusalsOfClusterServiceTellNoState(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := porttest.NewPipes()
		port := New(Config{}, newApplying(), fakeCluster{err: session.ErrStopping})
		served := make(chan error, 1)
		go func() { served <- port.Serve(network) }()
		defer func() { _ = port.Stop(t.Context()); <-served }()
		_, err := holdfastv1.NewClusterServiceClient(dialPipes(t, network)).GetStatus(t.Context(),
			&holdfastv1.GetStatusRequest{})
		if got := wire.StateOf(err); !errors.Is(wire.Domain(err), session.ErrStopping) || got != (session.NodeState{}) {
			t.Errorf("the refusal %v tells %+v", err, got)
		}
	})
}

// Every message of a connection carries the node's state as of its sending.
func TestN4IndexOfMessagesIsReadAtTheSending(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := newApplying()
		network := porttest.NewPipes()
		port := New(Config{}, service, fakeCluster{})
		served := make(chan error, 1)
		go func() { served <- port.Serve(network) }()
		defer func() { _ = port.Stop(t.Context()); <-served }()
		stream := connected(t, network)
		resume := resumeMessage(2, 7)
		resume.GetResume().SeenIndex = 99
		var seen uint64
		service.resume = func(_ context.Context, r session.ResumeRequest) (session.Grant, error) {
			service.index.Add(1)
			seen = r.Seen
			return session.Grant{}, session.ErrReadOnly
		}
		for _, m := range []*holdfastv1.ClientMessage{openMessage(1), resume, touchMessage(3), closeMessage(4, 7)} {
			send(t, stream, m)
			a := receive(t, stream)
			if got := wire.StateFrom(a.GetState()); got != porttest.StateOf(service.index.Load()) {
				t.Errorf("%v tells %+v, want the index after it, %d", a, got, service.index.Load())
			}
		}
		if seen != 99 {
			t.Errorf("resumed by a client that has seen %d, want 99", seen)
		}
		service.newest().Jeopardy(time.Now(), nil)
		if a := receive(t, stream); a.GetJeopardy() == nil ||
			wire.StateFrom(a.GetState()) != porttest.StateOf(service.index.Load()) {
			t.Errorf("jeopardy is %v", a)
		}
	})
}

// A joined message has one state, however many messages it joins.
func TestAStateIsMadeOnceAMessage(t *testing.T) {
	const joined = 33
	made := 0
	state := porttest.StateOf(7)
	o := newOutbox(2*session.MaxBatch, new(port.Account), port.ReadTimeout, func() session.NodeState { made++; return state })
	for range session.MaxBatch + joined {
		o.jeopardyEnded()
	}
	o.close()
	n := 0
	_, err := (&writer{out: o}).run(t.Context(), func(m any) error {
		if wire.StateFrom(sent(m).GetState()) != state {
			t.Errorf("message %d has no state", n)
		}
		n++
		return nil
	})
	if err != nil || made != 2 || n != 2 {
		t.Errorf("%d states for %d messages, %v", made, n, err)
	}
}

func TestStateOfErrorsWithoutOne(t *testing.T) {
	for _, err := range []error{
		nil, errors.New("x"), status.Error(codes.Unavailable, "x"), wire.Status(session.ErrReadOnly),
	} {
		if got := wire.StateOf(err); got != (session.NodeState{}) {
			t.Errorf("%v: %+v", err, got)
		}
	}
	for _, p := range []*holdfastv1.NodeState{nil, {}, {Node: 255, Index: 3}} {
		if got := wire.StateFrom(p); got != (session.NodeState{}) {
			t.Errorf("%v: %+v", p, got)
		}
	}
	for _, m := range []session.Mode{0, session.ModeReadWrite, session.ModeReadOnly, session.ModeNoLeader} {
		if got := wire.ModeFrom(wire.ModeProto(m)); got != m {
			t.Errorf("%v became %v", m, got)
		}
	}
	if got := wire.ModeFrom(99); got != 0 {
		t.Errorf("a mode of a later version is %v", got)
	}
}

// A read of the applied state is marked as a read-only node's, whatever the node has become since; no other answer is.
func TestN3AnswersFromTheAppliedStateSayReadOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		applied := true
		ended := func(id session.ID) error {
			c := porttest.Certificate(id)
			err := error(&session.ExpiredError{ID: id})
			if id == 8 {
				err = &session.ExpiredError{ID: id, Certificate: &c}
			}
			if applied {
				err = &session.AppliedError{Err: err}
			}
			return err
		}
		service := &fakeService{
			state: func() session.NodeState {
				return session.NodeState{Node: 3, Mode: session.ModeReadWrite, Index: 9}
			},
			find: func(_ context.Context, id session.ID, _ session.ReadOptions) (session.Listed, error) {
				if id == 7 {
					return session.Listed{
						Session: porttest.Grant(id).Session, Remaining: wire.Unknown,
						Applied: applied,
					}, nil
				}
				return session.Listed{}, ended(id)
			},
			list: func(context.Context, session.Query) (session.Page, error) {
				return session.Page{Applied: applied}, nil
			},
		}
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		for want, is := range map[session.Mode]bool{session.ModeReadOnly: true, session.ModeReadWrite: false} {
			applied = is
			for id := range uint64(3) {
				answer, err := c.GetSession(t.Context(), &holdfastv1.GetSessionRequest{SessionId: id + 7})
				got := wire.StateFrom(answer.GetState())
				if id == 2 {
					got = wire.StateOf(err)
				}
				if got.Mode != want || got.Index != 9 || (id == 2) != errors.Is(wire.Domain(err), session.ErrExpired) {
					t.Errorf("get of %d tells %+v, %v; want %v", id+7, got, err, want)
				}
			}
			page, err := c.ListSessions(t.Context(), &holdfastv1.ListSessionsRequest{})
			if got := wire.StateFrom(page.GetState()); err != nil || got.Mode != want || got.Index != 9 {
				t.Errorf("a list tells %+v, %v; want %v", got, err, want)
			}
		}
	})
}
