package zk

import (
	"holdfast/session"
	"holdfast/transport/census"
)

// presence is a connection with a session, in the census.
type presence struct{ of *conn }

// Requests counts the client's requests.
func (p presence) Requests() uint64 { return uint64(p.of.line.received.Load()) } //nolint:gosec // a count

// Serves reports whether the connection has a session.
func (p presence) Serves(id session.ID) bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.of.shown.id == id
}

// Sessions returns the connection's session.
func (p presence) Sessions(int) []session.ID {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return []session.ID{p.of.shown.id}
}

// Caller is whose connection it is. Such a client has no name but that of a certificate that the node has asked for.
func (p presence) Caller() census.Caller {
	return census.Caller{Name: p.of.caller.Principal, Verified: p.of.caller.Verified, Principals: p.of.who()}
}

// Client returns whose connection it is, for the node's log.
func (c *conn) Client() session.Client {
	return session.Client{Address: c.net.RemoteAddr().String(), Name: c.caller.Principal, Verified: c.caller.Verified}
}

// Load is what the node has of the connection, which has one session.
func (p presence) Load() census.Load {
	watches, unsent := p.of.tree.Holding()
	return census.Load{Sessions: 1, Watches: watches, Unsent: unsent + int(p.of.out.figures.waits.Load())}
}
