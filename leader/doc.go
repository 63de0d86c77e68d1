// Package leader is a node's part as the leader of one Raft term: heartbeat rounds, the accountable clock, deadlines
// and expiry, and the requests that learners forward. A [Tracker] exists for exactly one term. The package knows no
// network and no consensus library: it declares the interfaces that it needs, [Log], [View] and [Link]. Rule numbers
// refer to docs/protocol.md and docs/tree.md.
//
// Calls go down this list, never up:
//
//	Tracker                            the loop of the term (tracker.go), streams of members (follow.go)
//	requests, expirer, intake          requests of learners; due sessions; touches
//	forgetter                          request ids that are old enough to forget
//	closer                             proposes closes, removes closing marks
//	registry, shard                    sessions with their deadlines
//	heartbeats                         guards rounds and clock, begins rounds
//	rounds, member, clock, pace        pure: the rules of rounds, members and time
//	term, stream, wallClock, handlers  state with few rules of its own; signal wakes a goroutine
package leader
