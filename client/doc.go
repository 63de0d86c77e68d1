// Package client is Holdfast's Go SDK. A [Client] keeps one connection to one node of a cluster for all of its sessions,
// keeps them alive, and moves with them to another node when the present one is lost, cut off or silent. A [Session]
// says until when the cluster promises not to expire it.
//
// # States
//
// A state is a session's, as its application sees it: sessions of one client may differ, one being connected while another
// one is still being resumed on the same connection. [Session.State] tells the present one, and [Session.Events] each
// transition with its reason. [Session.SafeUntil] is apart from that: a promise outlives a lost connection.
//
//	              a node serves it
//	CONNECTING ------------------------> CONNECTED
//	  ^  |  ^    connection is lost        |   ^
//	  |  |  +------------------------------+   |  the node hears of a quorum again,
//	  |  |                                 |   |  there is a promise again,
//	  |  |                                 |   |  another node serves it
//	  |  |      the node is in JEOPARDY,   |   |
//	  |  |      or the promise ran out     v   |
//	  |  +------------------------------> JEOPARDY
//	  |   a node serves it,                |
//	  |   and promises nothing yet         |
//	  +------------------------------------+
//	              connection is lost
//
//	from each of these three, and then for good:
//	  EXPIRED      the cluster ended it
//	  CLOSED       closed by its application, given up, or resumed by another client
//	  AUTH_FAILED  the cluster refused its credential
//
// A node that is left for another one serves its sessions until the other one does: such a move is no transition, and
// shows as a [Connected] event from CONNECTED or JEOPARDY. What runs out while no node serves a session leaves it
// CONNECTING. ZooKeeper's CONNECTED_READ_ONLY is missing, because no node serves sessions read-only.
//
// # Goroutines
//
// One goroutine per client, the loop, owns the sessions, the requests and the connections; a connection has two more, one
// that receives and one that sends. Rule numbers in comments are those of docs/protocol.md; C- and K- are ZooKeeper's.
package client
