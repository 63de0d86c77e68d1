// Package client is Holdfast's Go SDK. A [Client] keeps one connection to one node of a cluster for all of its
// sessions, and keeps the sessions alive. When the node is lost, cut off or silent, the client moves to another node
// with its sessions. A [Session] says until when the cluster promises not to expire it.
//
// # States
//
// A state describes a session as its application sees it. Sessions of one client may have different states: one session
// is connected while another is still being resumed on the same connection. [Session.State] returns the present state,
// and [Session.Events] tells each transition with its reason. The promise, [Session.SafeUntil], is independent of the
// state: it outlives a lost connection.
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
// When a client leaves one node for another, the former node serves its sessions until the new node does. Such a move
// is no transition: it shows as a [Connected] event from CONNECTED or JEOPARDY. A promise that runs out while no node
// serves the session changes neither CONNECTING nor CONNECTED_READ_ONLY.
//
// # Read-only nodes
//
// A node that hears of no leader may be read-only (N1): it serves reads of the state that it has applied, and no
// writes. With [Config].ReadOnly, a client stays at such a node while it finds no better one. It looks for a read-write
// node in the background, in the rounds described below, and moves there with its sessions. If the read-only node hears
// of a leader again, the client uses it at once. Without [Config].ReadOnly, a client passes over read-only nodes like
// all nodes that hear of no leader.
//
// CONNECTED_READ_ONLY promises no more than CONNECTING. [Session.SafeUntil] may run out, and a touch renews it only as
// far as a leader had confirmed earlier touches (N2). When the whole cluster has no quorum, the session lives on: this
// time counts against no session (I8). When only this client's side is cut off, the session expires in the quorum that
// goes on without it. The first read-write node tells which. A client that has found no read-write node has no session
// id yet: [Client.Open] waits, and its error wraps [session.ErrReadOnly] if a read-only node was the last obstacle.
//
// Reads ([Client.Get], [Client.List]) are independent of the connection that keeps the sessions. A result names the
// mode of the node that answered, and the index of the log that the result shows. No node shows a client an older state
// than the client has seen (N4): see [Client.SeenIndex].
//
// # Finding a node
//
// A client leaves a node that it has lost, that says it hears of no leader, or that owes an answer. With a session
// timeout T, a node owes an answer from 5/12 T after the client sent the last touch that the node answered. Then two other
// nodes can be given T/4 each; client/internal/core/silence.go has the arithmetic.
//
// While a call waits, the client asks a node that has said nothing for a second for a sign of life, and leaves it when
// it gives none within 0.75 s. A node that waits for the election of a leader answers that, and is kept.
//
// A round goes over all servers in random order, and comes to the server that served last at its end. Each round
// resolves names again, to all their addresses. The client begins the next attempt to connect when the one before has
// failed, or has taken [Config].HedgeDelay, and uses the first connection that is up. After a round without success the
// client waits: a back-off with full jitter, on top of the wait that a server asked for. When a node has answered in a
// round, the round waits for an attempt that hangs no longer than the hedge delay, twice as long after each round in
// vain.
//
// A client learns the addresses of nodes that it was not configured with: it asks the node that serves it for the
// members of the cluster when it has connected for the first time, and rarely from then on. A round comes to these
// addresses after the configured ones. [Client.WatchSessions] asks for them by itself, at its begin and as rarely
// from then on. Calls apart from the sessions go on there when no endpoint answers, and when the endpoints have
// answered for [Config].ConnectTimeout and decide nothing. [Config].OnlyEndpoints turns this off.
//
// A node that is at the limit of its budget refuses a request and names a retry time. The client sends the request to
// the same node again at this time, with jitter on top. It sends a resume again after half of the time that its
// session's promise has left, if that is sooner, because the node may have an earlier slot by then. A resume goes to
// another node at once when its retry time is too late (less than T/4 before the promise ends), or when it was put off
// three times. The client does not ask the node that refused it before the retry time. Meanwhile it goes on trying
// nodes that did not refuse. [Config].Principal names the budget that a client uses.
//
// A request that is in flight on a lost connection is repeated safely, or ends with [session.ErrOutcomeUnknown]: see
// [InFlight]. [Client.UpdateServers] replaces the servers while the client runs.
//
// # Handing a session over
//
// A process with a session's token takes the session over with [Client.Resume] (M1). The client that held the session
// is told [session.ErrMoved]. None of its own resumes takes the session back: neither a resume under way, nor a resume
// after a lost connection.
//
// # Local sessions
//
// A session that was opened with [SessionOptions].Local lives at one node (L1). Its client looks for this node before
// any other. A client that holds nothing else asks no other node until the promise has run out. It does not leave its
// node for jeopardy, which is not about local sessions, nor to spread over a longer list of servers.
//
// A client that also holds global sessions moves with them. If it comes to another node, its local sessions end here
// with a [session.ExpiredError], whose LocalTo names their node. [Session.Upgrade] makes a local session global.
//
// # More than a session
//
// A [Pool] spreads thousands of sessions over a few connections, and the connections over the nodes. A [Registrar]
// opens a new session after an expiry and lets the application register again. Without a registrar, an expired session
// stays expired.
//
// # Goroutines
//
// Each client has one goroutine, the loop, which begins with the first [Client.Open], [Client.Resume] or
// [Client.WatchSessions], or the first call of a [Tree]. It takes the turns of package client/internal/core, which
// decides everything about sessions, requests and connections, and carries out the effects of each turn. A turn is
// about all that waits for the loop, and its requests to a node go out together: a thousand goroutines that open
// sessions at the same time need a few messages. Each connection has two more goroutines, for receiving and for
// sending. Each name that is being resolved has one more. [Client.Close] waits for all of these.
//
// # The tree
//
// [Session.Tree] writes and reads the cluster's tree of small entries, [Client.Tree] reads it and watches it without a
// session. Everything goes over the connection that keeps the sessions. Writes are sent again after a move, and take
// effect at most once. Watches come back with what has happened meanwhile, or say what is lost. A [Mirror] keeps a copy
// of a part of the tree in memory.
//
// Rule numbers in comments are those of docs/protocol.md, and where the tree is concerned those of docs/tree.md; C- and
// K- are ZooKeeper's.
package client
