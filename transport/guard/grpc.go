package guard

import (
	"context"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"holdfast/auth"
	"holdfast/transport/secure"
	"holdfast/transport/wire"
)

// Unary is the [grpc.UnaryServerInterceptor] of the guard. It returns domain errors.
func (g *Guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	call := g.call(info.FullMethod)
	s := shownIn(ctx)
	id, err := g.admit(info.FullMethod, call, s)
	record := g.cfg.Audit.begin(call.Act, who(id, ctx), address(s.from))
	record.about(req)
	if err != nil {
		record.end(err)
		return nil, err
	}
	defer record.recovered()
	answer, err := next(record.in(withIdentity(ctx, id)), req)
	record.end(err)
	return answer, err
}

// Stream is the [grpc.StreamServerInterceptor] of the guard. It returns domain errors. A stream outlives what its
// caller showed when it began, so each message asks again: the file may have changed, or the name may have expired.
func (g *Guard) Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	call, ctx := g.call(info.FullMethod), s.Context()
	showed := shownIn(ctx)
	id, err := g.admit(info.FullMethod, call, showed)
	record := g.cfg.Audit.begin(call.Act, who(id, ctx), address(showed.from))
	if err != nil {
		record.end(err)
		return err
	}
	defer record.recovered()
	guarded := &stream{
		ServerStream: s, guard: g, method: info.FullMethod, call: call, id: id, from: showed.from, record: record,
	}
	guarded.needs.Store(uint32(call.Needs))
	guarded.ctx = record.in(withIdentity(ctx, id))
	if id.Known() {
		guarded.ctx = context.WithValue(guarded.ctx, requestsKey{}, &Requests{guarded})
	}
	err = next(srv, guarded)
	record.end(err)
	return err
}

// withIdentity leaves the context as it is when nobody is known: streams are many, and contexts are searched.
func withIdentity(ctx context.Context, id auth.Identity) context.Context {
	if !id.Known() {
		return ctx
	}
	return auth.With(ctx, id)
}

// stream is a stream whose caller is looked at again with each message.
type stream struct {
	grpc.ServerStream
	guard  *Guard
	method string
	call   auth.Call
	id     auth.Identity
	from   net.Addr
	record *record
	ctx    context.Context //nolint:containedctx // this is how gRPC hands a stream its context
	// needs are the auth.Roles of which the caller must have one: those of the call, less those that do not allow what
	// has been asked for on the stream.
	needs atomic.Uint32
}

// Context returns the stream's context, with the caller's identity.
func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg receives the next message, or says why the caller may not send it any more.
func (s *stream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.record.about(m)
	return s.still()
}

// SendMsg sends a message, or says why the caller may not have it any more.
func (s *stream) SendMsg(m any) error {
	if err := s.still(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// still returns an error when the caller may not have the stream any more.
func (s *stream) still() error {
	call := s.call
	call.Needs = auth.Roles(s.needs.Load())
	return s.guard.still(s.method, call, s.id, s.from)
}

type requestsKey struct{}

// Requests decides about the requests of one stream, of which each may need other roles than the stream. A nil Requests
// admits all: callers are not authenticated.
type Requests struct{ stream *stream }

// RequestsOf returns what decides about the requests of the stream of ctx.
func RequestsOf(ctx context.Context) *Requests {
	r, _ := ctx.Value(requestsKey{}).(*Requests)
	return r
}

// Admit returns an error unless the caller may ask for what a method does. From then on the caller must have a role that
// allows it, or loses the stream: what a stream has begun, such as a session, goes on without further requests. Not safe
// for concurrent use.
func (r *Requests) Admit(method string) error {
	if r == nil {
		return nil
	}
	s := r.stream
	call, needs := s.guard.call(method), auth.Roles(s.needs.Load())
	if needs&^call.Needs == 0 && needs != 0 {
		return nil // whoever may send a message on this stream may ask for this
	}
	if err := s.guard.still(method, call, s.id, s.from); err != nil {
		return err
	}
	s.needs.Store(uint32(needs & call.Needs))
	return nil
}

// shownIn returns what the caller of a context showed.
func shownIn(ctx context.Context) shown {
	md, _ := metadata.FromIncomingContext(ctx)
	s := shown{bearer: md[wire.AuthorizationKey]}
	if p, ok := peer.FromContext(ctx); ok {
		s.from = p.Addr
	}
	if identity, ok := secure.IdentityOf(ctx); ok {
		s.names = auth.CertificateNames(identity.Certificate)
	}
	return s
}

// bearerOf reads the token of a header that was given once. The error does not show it.
func bearerOf(values []string) (auth.Token, error) {
	if len(values) != 1 {
		return auth.Token{}, auth.ErrNotToken
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, wire.BearerScheme) {
		return auth.Token{}, auth.ErrNotToken
	}
	return auth.ParseToken(rest)
}

// who names a caller for the audit log. The name that an unverified caller gives itself is shown as such.
func who(id auth.Identity, ctx context.Context) caller { //nolint:revive // context-as-argument: reads as a sentence
	if id.Known() {
		return caller{id.Name, true}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if names := md[wire.PrincipalKey]; len(names) == 1 && wire.ValidPrincipal(names[0]) {
		return caller{"unverified:" + auth.WithoutTokens(names[0]), false}
	}
	return caller{"unverified", false}
}
