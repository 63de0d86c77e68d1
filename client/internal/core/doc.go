// Package core decides what a client does about its sessions: which node serves them, which requests go to that node,
// which promises hold, and where the sessions move. The package does no I/O, starts no goroutine and reads no clock:
// [Core.Turn] gets inputs and the time, and returns the [Effects] that its caller carries out.
//
// The package combines three state machines. Each has a package with its own state and tests:
//
//	tree      reads, writes and watches
//	session   sessions, the callers that wait for one, promises
//	conn      connections: which node is dialed, which serves, when it is left; requests in flight
//
// A value calls the values below by their methods. It calls the values above by a small interface that it declares:
// conn by conn.Needs and conn.Handler, session by session.Tree. The type carried, in this package, implements conn's
// interfaces for sessions and tree.
//
// # An open and a touch
//
//  1. Client.Open passes an [Open] to the loop and waits for the answer. A turn processes all inputs that wait in
//     the loop's inbox. The session manager queues the open in the window of the current connection. Without a
//     connection, the conn manager starts a pass over the nodes (route.Router): the effect is a Dial.
//  2. The loop dials (stream.Start) and reports [Up]. Pump takes the open from the window, records the moment as
//     Sent, and adds a Send. The stream puts all queued requests into one Batch, if the node accepts batches. A refusal
//     defers the open in the window, or continues the pass.
//  3. [Received] with the answer makes a session. Its effects, in order: a grant, a promise that counts from
//     Sent (S3 length of a promise), the event Connected, and the answer to the caller.
//  4. The turn returns when the next turn is due. When the touch is due (client/internal/core/session/silence.go), the turn
//     adds one Send that touches all sessions of the connection. The answer renews each promise.
//  5. When a touch is not answered within a twelfth of the timeout, the client leaves the node (conn.Manager.Leave): it tries the next
//     node while the present node still serves. The client also leaves a silent node whose answer to another request is
//     overdue. The timer of promise.go, in package client, ends a session's context whatever the loop does.
package core
