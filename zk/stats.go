package zk

import (
	"sync/atomic"

	"holdfast/zk/operations"
	"holdfast/zk/writer"
)

// counters count the server's work.
type counters struct {
	connections               atomic.Int64
	opened, requests, expired atomic.Int64
	operations                operations.Counters
	writer                    writer.Counters
}

// Stats counts the server's work since its start. Connections is the present number.
type Stats struct {
	Connections int64
	// Opened counts the sessions that were opened or moved here. Expired counts the clients that got the answer that
	// their session is gone.
	Opened, Expired int64
	// Requests, Replies and Events count what was read and sent, Sent the bytes.
	Requests, Replies, Events, Sent int64
	// Refused counts the connections that ended with a refusal, AuthFailures those of them that failed to authenticate.
	Refused, AuthFailures int64
	// Unconfirmed counts the connections that ended because no touch was confirmed in time, Rounds how often the node
	// asked the cluster for a round (Z5 disconnected before expired).
	Unconfirmed, Rounds int64
}

// Stats returns the current figures.
func (s *Server) Stats() Stats {
	c := &s.counters
	return Stats{
		Connections: c.connections.Load(), Opened: c.opened.Load(), Expired: c.expired.Load(), Requests: c.requests.Load(),
		Replies: c.writer.Replies.Load(), Events: c.writer.Events.Load(), Sent: c.writer.Bytes.Load(),
		Refused: c.operations.Refused.Load(), AuthFailures: c.operations.AuthFailed.Load(),
		Unconfirmed: c.writer.Unconfirmed.Load(), Rounds: c.writer.Rounds.Load(),
	}
}
