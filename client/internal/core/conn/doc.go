// Package conn decides about the connections of a client: which node the client dials next, which node serves, when the
// client leaves a node, and how requests wait for a connection, for an answer or for a retry. The package does no I/O.
// [Effects] says what the caller must dial, send and close.
//
// A client has at most one connection that serves, the current connection. While the client moves, it also has a
// candidate: the first dialed connection that came up. The candidate becomes current when its node has served a
// request. Until then the sessions stay with the current connection, so a move costs no promise.
//
// Two interfaces hide the users of the connections: [Needs] reports what needs a connection, and [Handler] receives the
// events of connections.
package conn
