package clientport

import (
	"context"
	"errors"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// sessionServer serves SessionService. Its unary methods return domain errors, which the port's interceptor converts to
// statuses.
type sessionServer struct {
	holdfastv1.UnimplementedSessionServiceServer
	cfg     Config
	service session.Service
	port    *port.Port
	limiter *ratelimit.Limiter
	stats   *counters
	// streamsEnd is closed when Connect streams are to end while calls are still served.
	streamsEnd <-chan struct{}
}

// state returns the node's state. Call it after reading the contents of an answer (N4 seen index).
func (s *sessionServer) state() *holdfastv1.NodeState { return wire.StateProto(s.service.State()) }

// stateOfRead is state for the answer to a read. An answer from the applied state counts as a read-only node's answer,
// whatever mode the node has entered since (N3 stale reads).
//
//nolint:revive // flag-parameter: it is about the mode only
func (s *sessionServer) stateOfRead(applied bool) *holdfastv1.NodeState {
	state := s.state()
	if applied {
		state.Mode = holdfastv1.Mode_MODE_READ_ONLY
	}
	return state
}

// OpenSession opens a session without a connection: TouchSessions keeps it alive until it is resumed.
func (s *sessionServer) OpenSession(ctx context.Context,
	req *holdfastv1.OpenSessionRequest,
) (*holdfastv1.OpenSessionResponse, error) {
	open, err := wire.OpenFrom(req, s.cfg.Clock())
	if err != nil {
		return nil, err
	}
	caller, err := s.admit(ctx, ratelimit.Opens, 1)
	if err != nil {
		return nil, err
	}
	g, err := s.unary(func(c session.Connection) (session.Grant, error) { return c.Open(ctx, open) })
	if err != nil {
		s.limiter.Unserved(time.Now(), ratelimit.Opens, 1, caller, err)
		return nil, err
	}
	return &holdfastv1.OpenSessionResponse{
		Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token), SafeFor: wire.PromiseProto(g.SafeFor),
		State: s.state(),
	}, nil
}

// admit passes a unary call through the rate limits, and returns its caller.
func (s *sessionServer) admit(ctx context.Context, k ratelimit.Kind, n int) (ratelimit.Caller, error) {
	v, err := ratelimit.CallerOf(ctx)
	if err != nil {
		return v, err
	}
	return v, s.limiter.Admit(time.Now(), k, n, v)
}

// unary serves one request through a connection of its own.
func (s *sessionServer) unary(do func(session.Connection) (session.Grant, error)) (session.Grant, error) {
	conn, err := s.service.Connect(nil)
	if err != nil {
		return session.Grant{}, err
	}
	defer conn.Disconnect()
	return do(conn)
}

// ResumeSession moves a session to this node.
func (s *sessionServer) ResumeSession(ctx context.Context,
	req *holdfastv1.ResumeSessionRequest,
) (*holdfastv1.ResumeSessionResponse, error) {
	resume, err := wire.ClientResumeFrom(req)
	if err != nil {
		return nil, err
	}
	caller, err := s.admit(ctx, ratelimit.Resumes, 1)
	if err != nil {
		return nil, err
	}
	g, err := s.unary(func(c session.Connection) (session.Grant, error) { return c.Resume(ctx, resume) })
	if err != nil {
		s.limiter.Unserved(time.Now(), ratelimit.Resumes, 1, caller, err)
		return nil, err
	}
	return &holdfastv1.ResumeSessionResponse{
		Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token), SafeFor: wire.PromiseProto(g.SafeFor),
		Applied: g.Applied, Floor: g.Floor, State: s.state(),
	}, nil
}

// TouchSessions touches sessions that this node owns.
func (s *sessionServer) TouchSessions(ctx context.Context,
	req *holdfastv1.TouchSessionsRequest,
) (*holdfastv1.TouchSessionsResponse, error) {
	tokens, err := wire.TokensFrom(req.GetTokens())
	if err != nil {
		return nil, err
	}
	confirmWithin, err := wire.DurationFrom("confirm_within", req.GetConfirmWithin(), wire.NotNegative)
	if err != nil {
		return nil, err
	}
	if _, err = s.admit(ctx, ratelimit.Touches, len(tokens)); err != nil {
		return nil, err
	}
	began := time.Now()
	conn, err := s.service.Connect(nil)
	if err != nil {
		return nil, err
	}
	defer conn.Disconnect()
	// One time limit for all tokens: otherwise a node that is far behind would wait once for each token.
	waits, cancel := context.WithTimeout(ctx, s.cfg.TouchWait)
	defer cancel()
	promises, failures := make([]time.Duration, len(tokens)), make([]error, len(tokens))
	touched := false
	for i, t := range tokens {
		promises[i], failures[i] = conn.TouchToken(waits, t)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failures[i] != nil && waits.Err() != nil && errors.Is(failures[i], waits.Err()) {
			failures[i] = session.ErrLagging
		}
		touched = touched || failures[i] == nil && !t.Local
	}
	if touched && confirmWithin > 0 {
		confirming, cancel := context.WithTimeout(ctx, confirmWithin)
		defer cancel()
		for i, safe := range conn.Confirmed(confirming, began, tokens) {
			promises[i] = max(promises[i], safe)
		}
	}
	results := make([]*holdfastv1.TouchResult, len(tokens))
	for i, t := range tokens {
		results[i] = &holdfastv1.TouchResult{SessionId: uint64(t.ID), Error: wire.Detail(failures[i])}
		if failures[i] == nil {
			results[i].SafeFor = wire.PromiseProto(promises[i])
		}
	}
	return &holdfastv1.TouchSessionsResponse{Results: results, State: s.state()}, nil
}

// CloseSession ends a session.
func (s *sessionServer) CloseSession(ctx context.Context,
	req *holdfastv1.CloseSessionRequest,
) (*holdfastv1.CloseSessionResponse, error) {
	token, err := wire.TokenFrom(req.GetToken())
	if err != nil {
		return nil, err
	}
	conn, err := s.service.Connect(nil)
	if err != nil {
		return nil, err
	}
	defer conn.Disconnect()
	if err := conn.Close(ctx, token); err != nil {
		return nil, err
	}
	return &holdfastv1.CloseSessionResponse{State: s.state()}, nil
}

// GetSession shows a session, or the certificate of its end.
func (s *sessionServer) GetSession(ctx context.Context,
	req *holdfastv1.GetSessionRequest,
) (*holdfastv1.GetSessionResponse, error) {
	id, err := wire.IDFrom("session_id", req.GetSessionId())
	if err != nil {
		return nil, err
	}
	found, err := s.service.Find(ctx,
		id, session.ReadOptions{AllowReadOnly: req.GetAllowReadOnly(), Seen: req.GetSeenIndex()})
	if expired, ok := errors.AsType[*session.ExpiredError](err); ok && expired.Certificate != nil {
		return &holdfastv1.GetSessionResponse{
			Result: &holdfastv1.GetSessionResponse_Certificate{
				Certificate: wire.CertificateProto(*expired.Certificate),
			},
			State: s.stateOfRead(wire.FromApplied(err)),
		}, nil
	}
	if err != nil {
		return nil, err
	}
	return &holdfastv1.GetSessionResponse{
		Result:    &holdfastv1.GetSessionResponse_Session{Session: wire.SessionProto(found.Session)},
		Remaining: wire.PromiseProto(found.Remaining),
		State:     s.stateOfRead(found.Applied),
	}, nil
}

// ListSessions shows one page of sessions.
func (s *sessionServer) ListSessions(ctx context.Context,
	req *holdfastv1.ListSessionsRequest,
) (*holdfastv1.ListSessionsResponse, error) {
	query, err := queryFrom(req)
	if err != nil {
		return nil, err
	}
	page, err := s.service.List(ctx, query)
	if err != nil {
		return nil, err
	}
	answer := pageProto(page)
	if query.Soonest {
		answer.NextPageToken = "" // the part that did not fit into the answer is omitted
	}
	answer.State = s.stateOfRead(page.Applied)
	return answer, nil
}
