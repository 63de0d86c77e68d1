// Package local serves local sessions: sessions that only this node knows (rules L1 to L8 of docs/protocol.md). No log
// entry, no disk and no other node has them, and they end with the process of their node.
//
// [Table] holds the sessions with their deadlines. The caller of each method passes the present moment, so Table needs
// no clock, no goroutine and no other node. [Service] uses the table and waits where a request has to wait: for ids
// from the leader (L2 local ids), for a leader that makes a session global (L7 upgrade, L8 one upgrade at a time), and
// for a linearizable read before it answers that a session has ended (M5 lagging, not expired).
//
//	open    --> Service.Open --> ids in stock --> Table.Open            no other node is asked
//	touch   --> Table.Touch, Table.TouchAll                             one lock
//	expiry  --> Service.Expire --> Table.Expire --> Conn.Gone
//	upgrade --> Service.Upgrade --> Node.Ask --> log --> Service.Promote --> Conn.Promote --> Table.HandOver
//
// The package declares interfaces for its surroundings: [Node] is the rest of the node, [Clock] the node's clock and
// [Conn] a client's connection.
//
// Locks: Table has one lock. Only Table.HandOver calls out under the lock: it registers the global session before it
// drops the local session, so that every touch finds the session in one of the two places.
package local
