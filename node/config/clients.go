package config

import "time"

// Clients bound what clients can hold of one node.
type Clients struct {
	// MaxMessageBytes bounds one message.
	MaxMessageBytes int
	// MaxConnections bounds the network connections.
	MaxConnections int
	// MaxWaitingBytes bounds what waits for clients on all connections.
	MaxWaitingBytes int
	// DrainTimeout is how long a node that is drained waits for its clients to go.
	DrainTimeout time.Duration
}

// minMessageBytes is above the size of session.MaxTouchBatch tokens, about 420 KB.
const minMessageBytes = 512 << 10

// minWaitingBytes has room for what a few connections may have waiting.
const minWaitingBytes = 64 << 20

func clientSettings() []setting {
	return []setting{
		number("max_message_bytes", "1048576", span[int]{minMessageBytes, 64 << 20},
			func(c *Config) *int { return &c.Clients.MaxMessageBytes }).
			helps("size of one message of a client"),
		number("max_connections", "20000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.Clients.MaxConnections }).
			helps("network connections of clients to this node; above it idle connections are closed, and further " +
				"connections are refused; the limit of file descriptors may allow fewer"),
		number("max_waiting_bytes", "268435456", span[int]{minWaitingBytes, 1 << 40},
			func(c *Config) *int { return &c.Clients.MaxWaitingBytes }).
			helps("answers that clients have not read, requests under way and incomplete messages, on all connections; " +
				"above it the connections that hold most are ended"),
	}
}
