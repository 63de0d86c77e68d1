// Package leader is a node's part as the leader of one Raft term: heartbeat rounds, the accountable clock, deadlines
// and expiry, and the requests that learners forward. A [Tracker] lives for exactly one term. The package knows no
// network and no consensus library: it declares the interfaces that it needs, [Log], [View] and [Link]. Rule numbers
// are those of docs/protocol.md and docs/tree.md.
//
// Calls go down this list, never up:
//
//	Tracker                            the loop of the term (tracker.go), streams of members (follow.go)
//	requests, expirer, intake          what learners ask; what is due; touches
//	forgetter                          request ids that are old enough to forget
//	closer                             proposes closes, takes marks back
//	registry, shard                    sessions with their deadlines
//	heartbeats                         guards rounds and clock, begins rounds
//	rounds, member, clock, pace        pure: the rules of rounds, members and time
//	term, stream, wallClock, handlers  state with few rules of its own; signal wakes a goroutine
package leader
