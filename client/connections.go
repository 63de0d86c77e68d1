package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// MaxListedConnections is the largest [ConnectionOptions].Limit.
const MaxListedConnections = 1000

// ConnectionOptions describes which connections of a node to list: those that match all fields that are set.
type ConnectionOptions struct {
	// Limit is how many connections, the busiest first, 1 to [MaxListedConnections]; 0 is 100.
	Limit int
	// Session keeps the connection that serves it; 0 is any.
	Session session.ID
	// Principal selects connections whose caller's name, or one of whose principals, contains this text. Upper and
	// lower case differ; empty is any.
	Principal string
	// SessionIDs is how many ids of its sessions each connection comes with: for all of Limit, at most 100,000.
	SessionIDs int
}

// ConnectionList is a node's report about its connections.
type ConnectionList struct {
	// Connections are the busiest, in this order. There may be fewer than requested: an answer has at most about 1 MiB.
	Connections []ClientConnection
	// Total is how many of the node's connections match.
	Total uint64
}

// ClientConnection is a connection of a client to a node, through which the client has sessions or may open some.
type ClientConnection struct {
	// Address is the client's end, host:port.
	Address string
	// Protocol is grpc or zookeeper, or unknown for a value that this release does not know.
	Protocol string
	// Name is the name under which the node knows the caller, empty for none. Without Verified, the client says so
	// itself.
	Name     string
	Verified bool
	// Principals are the principals of the connection in access lists of the tree, as SCHEME:ID; for a digest the name
	// without the password.
	Principals []string
	Since      time.Time
	// Sessions and Watches count those of the connection. Requests counts the client's messages: a batch counts as one
	// message, and so does a touch of all sessions. Unsent is the number of bytes that the node has queued for the
	// client.
	Sessions, Watches, Requests, Unsent uint64
	// SessionIDs are ids of the connection's sessions, at most as many as requested.
	SessionIDs []session.ID
	// Rate is the number of requests a second, measured over the interval Over until now: some seconds if the rate was
	// read recently, otherwise the life of the connection.
	Rate float64
	Over time.Duration
}

// Connections asks the node at endpoint, host:port, and no other node, once, for the connections that it has. Who makes
// single calls only has no connection. The error is [session.ErrNoConnection] when o names a session that no connection
// of the node serves, and [ErrUnreachable] when the node does not answer. Safe for concurrent use.
func (c *Client) Connections(ctx context.Context, endpoint string, o ConnectionOptions) (ConnectionList, error) {
	if o.Limit < 0 || o.Limit > MaxListedConnections {
		return ConnectionList{}, fmt.Errorf("list connections: %w",
			&session.FieldError{Field: "limit", Limit: fmt.Sprintf("0 to %d", MaxListedConnections)})
	}
	if limit := maxIDs / cmp.Or(o.Limit, 100); o.SessionIDs < 0 || o.SessionIDs > limit {
		return ConnectionList{}, fmt.Errorf("list connections: %w",
			&session.FieldError{Field: "session_ids", Limit: fmt.Sprintf("0 to %d", limit)})
	}
	var answer *holdfastv1.ListConnectionsResponse
	err := c.nodes.At(ctx, endpoint, func(ctx context.Context, cc *grpc.ClientConn) (err error) {
		answer, err = holdfastv1.NewClusterServiceClient(cc).ListConnections(ctx, &holdfastv1.ListConnectionsRequest{
			Limit: uint32(o.Limit), SessionId: uint64(o.Session), Principal: o.Principal,
			SessionIds: uint32(o.SessionIDs),
		})
		return err
	})
	if err != nil {
		return ConnectionList{}, fmt.Errorf("ask %s for its connections: %w", endpoint, err)
	}
	list := ConnectionList{Total: answer.GetTotal()}
	for _, p := range answer.GetConnections() {
		var ids []session.ID
		for _, id := range p.GetSessionIds() {
			ids = append(ids, session.ID(id))
		}
		list.Connections = append(list.Connections, ClientConnection{
			Address: p.GetAddress(), Protocol: protocol(p.GetProtocol()), Name: p.GetName(), Verified: p.GetVerified(),
			Principals: p.GetPrincipals(), Since: p.GetSince().AsTime(), Sessions: p.GetSessions(), Watches: p.GetWatches(),
			Requests: p.GetRequests(), Unsent: p.GetUnsentBytes(), Rate: p.GetRequestsPerSecond(),
			Over: p.GetRateOver().AsDuration(), SessionIDs: ids,
		})
	}
	return list, nil
}

// ConnectionOf asks the node that owns a session, and no other node, for the connection that serves the session. c
// learns the owner's address from the members. The error is [session.ErrNoConnection] when no connection serves the
// session: its client is away, or makes single calls. It is [ErrUnreachable] when the owner does not answer, or is no
// member. Safe for concurrent use.
func ConnectionOf(ctx context.Context, c *Client, id session.ID, owner session.Node) (ClientConnection, error) {
	members, err := c.Members(ctx)
	if err != nil {
		return ClientConnection{}, err
	}
	at := slices.IndexFunc(members, func(m Member) bool { return m.Node == owner && m.ClientAddress != "" })
	if at < 0 {
		return ClientConnection{}, fmt.Errorf("%w: no address of node %d is known", ErrUnreachable, owner)
	}
	list, err := c.Connections(ctx, members[at].ClientAddress, ConnectionOptions{Session: id, Limit: 1})
	switch {
	case err != nil:
		return ClientConnection{}, err
	case len(list.Connections) == 0:
		return ClientConnection{}, session.ErrNoConnection
	}
	return list.Connections[0], nil
}

func protocol(p holdfastv1.Protocol) string {
	switch p {
	case holdfastv1.Protocol_PROTOCOL_GRPC:
		return "grpc"
	case holdfastv1.Protocol_PROTOCOL_ZOOKEEPER:
		return "zookeeper"
	case holdfastv1.Protocol_PROTOCOL_UNSPECIFIED:
	}
	return "unknown"
}
