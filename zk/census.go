package zk

import (
	"holdfast/session"
	"holdfast/transport/census"
)

// censusEntry is a connection with a session, in the census.
type censusEntry struct{ of *conn }

// Requests counts the client's requests.
func (e censusEntry) Requests() uint64 { return uint64(e.of.received.Load()) } //nolint:gosec // a count

// Serves reports whether the connection has the session.
func (e censusEntry) Serves(id session.ID) bool { return e.of.session.id() == id }

// Sessions returns the connection's session.
func (e censusEntry) Sessions(int) []session.ID { return []session.ID{e.of.session.id()} }

// Caller returns the connection's caller. A ZooKeeper client's name comes from a certificate that the node has
// requested; other clients have no name.
func (e censusEntry) Caller() census.Caller {
	return census.Caller{
		Name: e.of.client.Name, Verified: e.of.client.Verified, Principals: e.of.handler.Principals(),
	}
}

// Load returns the node's load from the connection, which has one session.
func (e censusEntry) Load() census.Load {
	watches, unsent := e.of.tree.Holding()
	return census.Load{Sessions: 1, Watches: watches, Unsent: unsent + int(e.of.writer.Unsent())}
}
