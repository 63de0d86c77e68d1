package config

import "time"

// Clients bound what clients can hold of one node.
type Clients struct {
	// MaxMessageBytes bounds one message.
	MaxMessageBytes int
	// MaxConnections bounds the network connections.
	MaxConnections int
	// MaxBufferedBytes bounds the data that the node buffers for clients on all connections.
	MaxBufferedBytes int
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
			helps("size of a client's message"),
		number("max_connections", "20000", span[int]{1, 10_000_000},
			func(c *Config) *int { return &c.Clients.MaxConnections }).
			helps("client connections of this node; above it the node closes idle ones and refuses others; fewer if " +
				"file descriptors are short"),
		number("max_buffered_bytes", "268435456", span[int]{minWaitingBytes, 1 << 40},
			func(c *Config) *int { return &c.Clients.MaxBufferedBytes }).
			helps("unread answers, requests in flight and incomplete messages of all connections; above it the node " +
				"closes the largest connections"),
	}
}
