package zk

import "sync/atomic"

// stats counts what the front end does.
type stats struct {
	connections                                     atomic.Int64
	opened, requests, replies, events, sent         atomic.Int64
	expired, refused, unauthentic, unproven, rounds atomic.Int64
}

// Stats is what the front end has done since it began, and Connections what it has now.
type Stats struct {
	Connections int64
	// Opened counts the sessions that were opened or came here. Expired counts the clients that were told that theirs is
	// gone.
	Opened, Expired int64
	// Requests, Replies and Events count what was read and sent, Sent the bytes.
	Requests, Replies, Events, Sent int64
	// Refused counts the connections that ended with a refusal, Unauthentic those of them whose client was not who it
	// said it was.
	Refused, Unauthentic int64
	// Unproven counts the connections that ended because no touch was confirmed in time, Rounds how often the node asked
	// the cluster for one (Z5).
	Unproven, Rounds int64
}

// Stats returns the figures of now.
func (s *Server) Stats() Stats {
	return Stats{
		Connections: s.stats.connections.Load(), Opened: s.stats.opened.Load(), Expired: s.stats.expired.Load(),
		Requests: s.stats.requests.Load(), Replies: s.stats.replies.Load(), Events: s.stats.events.Load(),
		Sent: s.stats.sent.Load(), Refused: s.stats.refused.Load(), Unauthentic: s.stats.unauthentic.Load(),
		Unproven: s.stats.unproven.Load(), Rounds: s.stats.rounds.Load(),
	}
}
