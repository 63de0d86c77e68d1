package config

import "time"

// Clients bound what clients can hold of one node.
type Clients struct {
	// MaxMessageBytes bounds one message.
	MaxMessageBytes int
	// MaxStreamsPerConnection bounds the calls under way on one network connection, MaxStreams those on all.
	MaxStreamsPerConnection, MaxStreams int
	// MaxConnections bounds the network connections.
	MaxConnections int
	// MaxSessionsPerConnection and MaxRequestsPerConnection bound one Connect stream.
	MaxSessionsPerConnection, MaxRequestsPerConnection int
	// MaxWaitingBytes bounds what waits for clients on all connections.
	MaxWaitingBytes int
	// LaggingWait is how long a request waits for this node to catch up with the request's token (M5).
	LaggingWait time.Duration
	// DrainTimeout is how long a node that is drained waits for its clients to go.
	DrainTimeout time.Duration
}

// minLaggingWait lets a healthy follower apply what the leader has answered already, also when it hears of the commit
// only after a commit timeout. A node that waits for less refuses opens that were done.
const minLaggingWait = 10 * minCommitTimeout

// minMessageBytes is above the size of session.MaxTouchBatch tokens, about 420 KB.
const minMessageBytes = 512 << 10

// minWaitingBytes has room for what a few connections may have waiting.
const minWaitingBytes = 64 << 20

func clientSettings() []setting {
	return []setting{
		number("max_message_bytes", "1048576", span[int]{minMessageBytes, 64 << 20},
			func(c *Config) *int { return &c.Clients.MaxMessageBytes }).
			helps("size of one message of a client"),
		number("max_streams_per_connection", "64", span[int]{1, 1 << 16},
			func(c *Config) *int { return &c.Clients.MaxStreamsPerConnection }).
			helps("open calls of one network connection"),
		number("max_streams", "25000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.Clients.MaxStreams }).
			helps("open calls of all network connections; above it idle connections are closed, and further calls are " +
				"refused"),
		number("max_connections", "20000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.Clients.MaxConnections }).
			helps("network connections of clients to this node; above it idle connections are closed, and further " +
				"connections are refused; the limit of file descriptors may allow fewer"),
		number("max_sessions_per_connection", "100000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.Clients.MaxSessionsPerConnection }).
			helps("sessions served through one connection"),
		number("max_requests_per_connection", "1024", span[int]{1, 1 << 14},
			func(c *Config) *int { return &c.Clients.MaxRequestsPerConnection }).
			helps("requests of one connection that wait for an answer"),
		number("max_waiting_bytes", "268435456", span[int]{minWaitingBytes, 1 << 40},
			func(c *Config) *int { return &c.Clients.MaxWaitingBytes }).
			helps("answers that clients have not read, requests under way and incomplete messages, on all connections; " +
				"above it the connections that hold most are ended"),
		duration("lagging_wait", "1s", span[time.Duration]{minLaggingWait, time.Minute},
			func(c *Config) *time.Duration { return &c.Clients.LaggingWait }).
			helps("how long a request waits for this node to catch up with the request's token; at most min_timeout"),
	}
}
