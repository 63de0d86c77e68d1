// Package client is Holdfast's Go SDK. A [Client] keeps one connection to one node of a cluster for all of its
// sessions, keeps them alive, and moves with them to another node when the present one is lost, cut off or silent. A
// [Session] says until when the cluster promises not to expire it.
//
// # States
//
// A state is a session's, as its application sees it: sessions of one client may differ, one being connected while
// another one is still being resumed on the same connection. [Session.State] tells the present one, and
// [Session.Events] each transition with its reason. [Session.SafeUntil] is apart from that: a promise outlives a lost
// connection.
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
//	from each of these three, if Config.ReadOnly allows it:
//
//	    the node that has the connection is read-only,
//	    and for want of a better one
//	  ----------------------------------> CONNECTED_READ_ONLY
//	                                       |   |   |
//	  a read-write node serves it          |   |   +---> CONNECTED
//	  ... and promises nothing yet,        |   |
//	  or its own node is not even that     |   +-------> JEOPARDY
//	  connection is lost,                  |
//	  or another node is not even that     +-----------> CONNECTING
//
//	from each of these four, and then for good:
//	  EXPIRED      the cluster ended it
//	  CLOSED       closed by its application, given up, or resumed by another client
//	  AUTH_FAILED  the cluster refused its credential
//
// A node that is left for another one serves its sessions until the other one does: such a move is no transition, and
// shows as a [Connected] event from CONNECTED or JEOPARDY. What runs out while no node serves a session leaves it
// CONNECTING, or CONNECTED_READ_ONLY.
//
// # Read-only nodes
//
// A node that hears of no leader may be read-only (N1): it serves reads of what it has applied, and no writes. A client
// that allows that, see [Config].ReadOnly, stays at such a node for want of a better one, looks for a read-write node
// in the background, in rounds over all servers as below, and moves there with its sessions; one that hears of a leader
// again while the client is there is used at once. Without leave a read-only node is passed over like any that hears of
// no leader.
//
// CONNECTED_READ_ONLY promises no more than CONNECTING. [Session.SafeUntil] may run out meanwhile, and is renewed by a
// touch only as far as was confirmed before (N2). Whether the session lives on is decided elsewhere: it does when the
// whole cluster has no quorum, because that time is held against nobody (I8); it expires when this client's side alone
// is cut off from a quorum that goes on without it. The first read-write node tells. A client that has found none yet
// has no session id: [Client.Open] waits, and its error wraps [session.ErrReadOnly] when that was in the way at the
// end.
//
// Reads ([Client.Get], [Client.List]) are made apart from the connection of the sessions. What they return says what
// the node that answered was, and up to which index of the log it showed. Whatever node answers, a client is never
// served an older state than it has seen (N4): see [Client.SeenIndex].
//
// # Finding a node
//
// A node is left when it is lost, says that it hears of no leader, or owes an answer: with a session's timeout T that
// is T/3 after the sending of the last touch that it answered, which leaves two other nodes T/4 each (silence.go has
// the arithmetic). A round goes over all servers in random order, the last one that served at its end; names are
// resolved again in each round, to all their addresses. The next attempt to connect is made when the one before has
// failed, or has taken [Config.HedgeDelay]; the first connection that is up is used. After a round that came to nothing
// follows a back-off with full jitter, on top of what a server asked for.
//
// A node that has more to do than it takes on refuses with a moment to come back at. A request waits for its own moment
// and goes to the same node again, with jitter on top; a resume after half of what is left of its session's promise at
// the latest, because the node may have a sooner moment by then. A resume for which the moment is too late (less than
// T/4 before its session's promise ends), or that has been put off three times, is tried at another node at once, and
// at the one that refused not before it would have come back there. Nodes that did not refuse are tried on meanwhile.
// [Config.Principal] says whose budget a client uses.
//
// What is in flight on a connection that is lost is repeated safely, or ends with [session.ErrOutcomeUnknown]: see
// [InFlight]. [Client.UpdateServers] replaces the servers at run time.
//
// # Handing a session over
//
// Whoever has a session's token takes it over with [Client.Resume] (M1). The client that held it is told
// [session.ErrMoved], and takes it back by no resume of its own: none that is under way, and none after a lost
// connection.
//
// # Local sessions
//
// A session that was opened with [SessionOptions].Local lives at one node (L1), and its client looks for that node
// before any other. As long as a client holds nothing else, it asks no other node until what was promised has run out,
// and leaves its node neither for a word of jeopardy, which is not about local sessions, nor to spread over a longer
// list of servers. Global sessions on the same connection come first: they move to where they are served, and when that
// is another node the local ones end here with a [session.ExpiredError] that says in LocalTo whose they are. They are
// touched apart from global ones. [Session.Upgrade] makes one global.
//
// # More than a session
//
// A [Pool] spreads thousands of sessions over a few connections and these over the nodes. A [Registrar] opens a new
// session after an expiry and has the application register again; without one, an expired session stays expired.
//
// # Goroutines
//
// One goroutine per client, the loop, owns the sessions, the requests and the connections; a connection has two more,
// one that receives and one that sends. Rule numbers in comments are those of docs/protocol.md; C- and K- are
// ZooKeeper's.
package client
