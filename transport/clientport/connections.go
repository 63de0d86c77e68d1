package clientport

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/census"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// Bounds of a list of connections.
const (
	defaultConnections, maxConnections = 100, 1000
	// maxSessionIDs is the largest number of session ids in an answer, 8 bytes each.
	maxSessionIDs = 100_000
	// maxPrincipalFilter is the longest search text.
	maxPrincipalFilter = 1024
)

// presence is a stream in the census.
type presence struct {
	stream *connection
	// caller does not change.
	caller census.Caller
	// principalErr is the error of an invalid principal: the node refuses the stream's requests of the tree with it.
	principalErr error
}

// join adds a stream to the census.
func (p *presence) join(ctx context.Context, stream *connection, caller ratelimit.Caller) *census.Entry {
	p.stream, p.caller = stream, census.Caller{Name: caller.Name, Verified: caller.Verified}
	p.caller.Principals, p.principalErr = ratelimit.PrincipalsOf(ctx, stream.server.cfg.Super)
	var address net.Addr
	if from, ok := peer.FromContext(ctx); ok {
		address = from.Addr
	}
	return stream.server.cfg.Census.Join(census.GRPC, address, p)
}

// Requests counts the client's messages.
func (p *presence) Requests() uint64 { return p.stream.received.Load() }

// Serves reports whether the stream serves a session.
func (p *presence) Serves(id session.ID) bool { return p.stream.streamState.serves(id) }

// Sessions returns up to limit of the stream's sessions.
func (p *presence) Sessions(limit int) []session.ID { return p.stream.streamState.some(limit) }

// Caller returns the stream's caller.
func (p *presence) Caller() census.Caller { return p.caller }

// Load returns the node's load from the stream.
func (p *presence) Load() census.Load {
	l := census.Load{Sessions: int(p.stream.sessions.Load()), Unsent: p.stream.out.unsent()}
	if part := p.stream.tree.get(); part != nil {
		watches, unsent := part.conn.Holding()
		l.Watches, l.Unsent = watches, l.Unsent+unsent
	}
	return l
}

// ListConnections shows this node's connections, the busiest first.
func (c *clusterServer) ListConnections(_ context.Context,
	req *holdfastv1.ListConnectionsRequest,
) (*holdfastv1.ListConnectionsResponse, error) {
	q, err := connectionsFrom(req)
	if err != nil {
		return nil, err
	}
	found, total := c.node.cfg.Census.List(q)
	if total == 0 && q.Session != 0 {
		return nil, session.ErrNoConnection
	}
	return connectionsProto(found, total), nil
}

// connectionsFrom reads a request.
func connectionsFrom(req *holdfastv1.ListConnectionsRequest) (census.Query, error) {
	q := census.Query{
		Limit: int(req.GetLimit()), Session: session.ID(req.GetSessionId()), Principal: req.GetPrincipal(),
		Sessions: int(req.GetSessionIds()),
	}
	switch {
	case req.GetLimit() > maxConnections:
		return q, &session.FieldError{
			Field: "limit", Limit: fmt.Sprintf("1 to %d, 0 means %d", maxConnections, defaultConnections),
		}
	case len(q.Principal) > maxPrincipalFilter:
		return q, &session.FieldError{Field: "principal", Limit: fmt.Sprintf("at most %d bytes", maxPrincipalFilter)}
	}
	q.Limit = cmp.Or(q.Limit, defaultConnections)
	if limit := maxSessionIDs / q.Limit; q.Sessions > limit {
		return q, &session.FieldError{Field: "session_ids", Limit: fmt.Sprintf("0 to %d", limit)}
	}
	return q, nil
}

// connectionsProto returns a list for the wire. It cuts the list if callers have long names, so that the answer stays
// below about [wire.DefaultMessageBytes]: clients refuse larger messages.
func connectionsProto(found []census.Connection, total int) *holdfastv1.ListConnectionsResponse {
	answer := &holdfastv1.ListConnectionsResponse{Total: uint64(total)} //nolint:gosec // a count
	size := 0
	for i := range found {
		one := connectionProto(&found[i])
		if size += proto.Size(one) + 8; size > wire.DefaultMessageBytes {
			break
		}
		answer.Connections = append(answer.Connections, one)
	}
	return answer
}

func connectionProto(c *census.Connection) *holdfastv1.ClientConnection {
	//nolint:gosec // counts
	one := &holdfastv1.ClientConnection{
		Address: c.Address, Name: c.Name, Verified: c.Verified, Since: timestamppb.New(c.Since),
		Sessions: uint64(max(c.Sessions, 0)), Watches: uint64(max(c.Watches, 0)), Requests: c.Requests,
		RequestsPerSecond: c.Rate, RateOver: durationpb.New(c.Over), UnsentBytes: uint64(max(c.Unsent, 0)),
	}
	switch c.Protocol {
	case census.GRPC:
		one.Protocol = holdfastv1.Protocol_PROTOCOL_GRPC
	case census.ZooKeeper:
		one.Protocol = holdfastv1.Protocol_PROTOCOL_ZOOKEEPER
	}
	for _, id := range c.Some {
		one.SessionIds = append(one.SessionIds, uint64(id))
	}
	for _, p := range c.Principals {
		one.Principals = append(one.Principals, p.Shown())
	}
	return one
}
