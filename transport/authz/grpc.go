package authz

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

// Unary is the [grpc.UnaryServerInterceptor] of the authorizer. It returns domain errors.
func (g *Authorizer) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
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

// Stream is the [grpc.StreamServerInterceptor] of the authorizer. It returns domain errors. A stream outlives the
// credentials of its beginning, so each message is authorized again: the file may have changed, or the name may have
// expired.
func (g *Authorizer) Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
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
		ServerStream: s, authorizer: g, method: info.FullMethod, call: call, id: id, from: showed.from, record: record,
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

// withIdentity returns ctx unchanged for an unknown caller: there are many streams, and values make look-ups in
// contexts slower.
func withIdentity(ctx context.Context, id auth.Identity) context.Context {
	if !id.Known() {
		return ctx
	}
	return auth.With(ctx, id)
}

// stream is a stream whose caller is authorized again with each message.
type stream struct {
	grpc.ServerStream
	authorizer *Authorizer
	method     string
	call       auth.Call
	id         auth.Identity
	from       net.Addr
	record     *record
	ctx        context.Context //nolint:containedctx // this is how gRPC hands a stream its context
	// needs are the auth.Roles of which the caller must have one: the roles that permit the call and all requests made
	// on the stream so far.
	needs atomic.Uint32
}

// Context returns the stream's context, with the caller's identity.
func (s *stream) Context() context.Context { return s.ctx }

// RecvMsg receives the next message, or returns why the caller may no longer send messages.
func (s *stream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.record.about(m)
	return s.still()
}

// SendMsg sends a message, or returns why the caller may no longer receive messages.
func (s *stream) SendMsg(m any) error {
	if err := s.still(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// still returns an error when the caller may no longer use the stream.
func (s *stream) still() error {
	call := s.call
	call.Needs = auth.Roles(s.needs.Load())
	return s.authorizer.still(s.method, call, s.id, s.from)
}

type requestsKey struct{}

// Requests authorizes the requests of one stream, each of which may need other roles than the stream. A nil Requests
// admits every request: authentication is off.
type Requests struct{ stream *stream }

// RequestsOf returns the Requests of ctx's stream.
func RequestsOf(ctx context.Context) *Requests {
	r, _ := ctx.Value(requestsKey{}).(*Requests)
	return r
}

// Admit returns an error unless the caller may make the request that corresponds to a method. From then on the caller
// must have a role that permits the method, or loses the stream: results of a stream's requests, such as a session,
// outlive the requests. Not safe for concurrent use.
func (r *Requests) Admit(method string) error {
	if r == nil {
		return nil
	}
	s := r.stream
	call, needs := s.authorizer.call(method), auth.Roles(s.needs.Load())
	if needs&^call.Needs == 0 && needs != 0 {
		return nil // every role that may use this stream may make this request
	}
	if err := s.authorizer.still(method, call, s.id, s.from); err != nil {
		return err
	}
	s.needs.Store(uint32(needs & call.Needs))
	return nil
}

// shownIn returns the credentials of a context's caller.
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

// bearerOf reads the token of a header that occurs once. The error does not contain the token.
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

// who names a caller for the audit log. It marks the name that an unverified caller gives itself as unverified.
func who(id auth.Identity, ctx context.Context) caller { //nolint:revive // context-as-argument: reads as a sentence
	if id.Known() {
		return caller{id.Name, true}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if names := md[wire.ClientNameKey]; len(names) == 1 && wire.ValidClientName(names[0]) {
		return caller{"unverified:" + auth.WithoutTokens(names[0]), false}
	}
	return caller{"unverified", false}
}
