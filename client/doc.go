// Package client is Holdfast's Go SDK. A [Client] keeps one connection to one node of a cluster for all of its
// sessions, and keeps the sessions alive. When the node is lost, cut off or silent, the client moves to another node
// with its sessions. [Session.SafeUntil] is the moment until which the cluster promises not to expire a session.
//
// # States
//
// A state describes a session as its application sees it. Sessions of one client may have different states: one session
// is connected while another is still being resumed on the same connection. [Session.State] returns the present state,
// and [Session.Events] reports each transition with its reason. The promise, [Session.SafeUntil], is independent of the
// state: it outlives a lost connection.
//
//	              a node serves it
//	CONNECTING ------------------------> CONNECTED
//	  ^  |  ^    connection is lost        |   ^
//	  |  |  +------------------------------+   |  the node has a quorum again,
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
//	    the connected node is read-only, and the client
//	    finds no better node
//	  ----------------------------------> CONNECTED_READ_ONLY
//	                                       |   |   |
//	  a read-write node serves it          |   |   +---> CONNECTED
//	  ... and promises nothing yet, or     |   |
//	  its own node stops serving reads     |   +-------> JEOPARDY
//	  connection is lost, or a node that   |
//	  is not its own stops serving reads   +-----------> CONNECTING
//
//	from each of these four, and then for good:
//	  EXPIRED      the cluster ended it
//	  CLOSED       closed by its application, given up, or resumed by another client
//	  AUTH_FAILED  the cluster refused its credential
//
// When a client leaves one node for another, the former node serves its sessions until the new node does. The move is
// no transition: it shows as a [Connected] event from CONNECTED or JEOPARDY. A promise that runs out while no node
// serves the session changes neither CONNECTING nor CONNECTED_READ_ONLY.
//
// # Read-only nodes
//
// A node that knows no leader may be read-only (N1 node mode): it serves reads of the state that it has applied, and no
// writes. With [Config].ReadOnly, a client stays at a read-only node while it finds no better node. In the background
// the client searches for a read-write node, in the rounds described below, and moves there with its sessions. If the
// read-only node finds a leader again, the client uses the node at once. Without [Config].ReadOnly, a client skips all
// nodes that know no leader.
//
// CONNECTED_READ_ONLY promises no more than CONNECTING. [Session.SafeUntil] may run out, and a touch renews it only as
// far as a leader had confirmed earlier touches (N2 read-only refusals). When the whole cluster has no quorum, the
// session lives on: time without a quorum counts against no session (I8 a sick server kills nobody). When only this
// client's side is cut off, the quorum on the other side expires the session. The first read-write node resolves which
// of both has happened. A client that has found no read-write node has no session id yet: [Client.Open] waits, and its
// error wraps [session.ErrReadOnly] if a read-only node was the last obstacle.
//
// Reads ([Client.Get], [Client.List]) are independent of the connection that keeps the sessions. A result names the
// mode of the node that answered, and the index of the log that the result shows. No node shows a client an older state
// than the client has seen (N4 seen index): see [Client.SeenIndex].
//
// # Finding a node
//
// A client leaves a node that it has lost, that reports that it knows no leader, or whose answer is overdue. With a
// session timeout T, an answer is overdue 5/12 T after the client sent the last touch that the node answered. The
// client then has time to try two other nodes for T/4 each; client/internal/core/session/silence.go has the arithmetic.
//
// While a call waits, the client asks a node that has said nothing for a second for a sign of life, and leaves it when
// it gives none within 0.75 s. A node that waits for the election of a leader answers that, and is kept.
//
// A round tries all servers in random order, and the server that served last at the end. Each round resolves all names
// again, to all their addresses. The client starts the next attempt to connect when the previous attempt has failed, or
// after [Config].HedgeDelay, and uses the first connection that is up. After a round without success the client waits:
// a back-off with full jitter, on top of the wait that a server requested. When a node has answered in a round, the
// round waits for a hanging attempt no longer than the hedge delay, twice as long after each round without success.
//
// A client learns the addresses of nodes beyond its configuration: it asks its node for the members of the cluster
// after the first connect, and rarely from then on. A round tries these addresses after the configured endpoints.
// [Client.WatchSessions] asks for them on its own, at its start and as rarely from then on. Calls without a session's
// connection use these addresses when no endpoint answers, and when the endpoints' answers have decided nothing for
// [Config].ConnectTimeout. [Config].OnlyEndpoints turns the learning off.
//
// A node whose rate limit is exhausted refuses a request and names a retry time. The client sends the request to the
// same node again at this time, with jitter on top. The client repeats a resume after half of the session's remaining
// promise, if that is sooner, because the node may have an earlier slot by then. A resume immediately goes to another
// node when its retry time is too late (less than T/4 before the promise ends), or after three refusals. The client
// does not contact the refusing node before the retry time. Meanwhile the client tries nodes that did not refuse.
// [Config].ClientName names the rate limit that a client shares.
//
// A request that is in flight on a lost connection is repeated safely, or ends with [session.ErrOutcomeUnknown]: see
// [InFlight]. [Client.UpdateServers] replaces the servers while the client runs.
//
// # Handing a session over
//
// A process with a session's token takes the session over with [Client.Resume] (M1 a resume is a move). The client that
// held the session gets [session.ErrMoved]. None of its own resumes takes the session back: neither a pending resume,
// nor a resume after a lost connection.
//
// # Local sessions
//
// A session that was opened with [SessionOptions].Local lives at one node (L1 local to one node). Its client tries this
// node before any other. A client that holds only local sessions asks no other node until the promise has run out. The
// client stays with its node in jeopardy, which does not concern local sessions, and when a longer list of servers
// would move it.
//
// A client that also holds global sessions moves with them. At another node the client's local sessions end here with a
// [session.ExpiredError], whose LocalTo names their node. [Session.Upgrade] makes a local session global.
//
// # More than a session
//
// A [Pool] spreads thousands of sessions over a few connections, and the connections over the nodes. A [Registrar]
// opens a new session after an expiry and lets the application register again. Without a registrar, an expired session
// stays expired.
//
// # Goroutines
//
// Each client has one goroutine, the loop, which starts with the first [Client.Open], [Client.Resume] or
// [Client.WatchSessions], or the first call of a [Tree]. The loop runs the turns of package client/internal/core, which
// decides everything about sessions, requests and connections, and carries out the effects of each turn. One turn
// handles all queued inputs, and its requests to a node go out together: a thousand goroutines that open sessions at
// the same time need a few messages. Each connection has two more goroutines, for receiving and for sending. Each name
// that is being resolved has one more. [Client.Close] waits for all of these.
//
// # The tree
//
// [Session.Tree] writes and reads the cluster's tree of small entries, [Client.Tree] reads it and watches it without a
// session. All these calls use the connection that keeps the sessions alive. After a move the client sends writes
// again, and each write takes effect at most once. Watches deliver the changes made meanwhile, or report which changes
// are lost. A [Mirror] keeps a copy of a part of the tree in memory.
//
// Rule numbers in comments refer to docs/protocol.md, for the tree to docs/tree.md; C- and K- are ZooKeeper's.
package client
