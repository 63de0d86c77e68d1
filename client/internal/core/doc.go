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
package core
