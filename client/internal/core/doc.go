// Package core decides what a client does about its sessions: which node serves them, what is asked of that node, what
// is promised, and where they move. It does no I/O, starts no goroutine and reads no clock: [Core.Turn] takes what
// happened and when, and returns the [Effects] that its caller brings about.
//
// The types stand on each other, each embedding the one below it, so that no lower one can call a higher one:
//
//	Core      turns: what callers ask for, what connections tell, the passing of time
//	answers   what nodes answer to requests, and their news of sessions
//	links     connections that come up, serve, become read-only, fail
//	requests  what is asked on which connection, and the touches
//	moves     which node is tried next, and when the present one is left
//	ledger    the sessions, the callers that wait, and the promises
//
// # An open and a touch
//
//  1. Client.Open hands the loop an Open and waits for its answer. A turn takes all inputs that wait in the loop's
//     inbox, and queues the open in the window of the present connection. Without one it begins a round
//     (route.Router): the effect is a Dial.
//  2. The loop dials (stream.Start) and tells the core Up. The turn takes the open from the window, notes the moment
//     as Sent, and returns a Send. The stream puts all requests that wait into one Batch, if the node takes batches.
//     A refusal puts the open off in the window, or goes on with the round.
//  3. Received with the answer makes a Session. Its effects, in order: a grant, a promise that counts from Sent (S3),
//     the event Connected, and the answer to the caller.
//  4. The turn says when it wants to be woken. At touchAt (silence.go) it returns one Send that touches all sessions
//     of the connection. The answer promises each of them anew.
//  5. A touch that is not answered within T/12 makes the core leave the node (moves.leave): the next node is tried
//     while this one still serves. The core also leaves a node that owes another answer and gives no sign of life
//     (links.checkSilence). The timer of promise.go, in package client, ends a session's context whatever the loop
//     does.
package core
