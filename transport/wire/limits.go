package wire

import "time"

// Buffers of one connection. gRPC's defaults of 32 KiB each way would use up all of the 32 KB that an idle connection
// may cost. Connections share write buffers, and return them after each write.
const (
	ReadBufferBytes  = 4 << 10
	WriteBufferBytes = 16 << 10
)

// DefaultMessageBytes is the default size of the largest message on the client port, in both directions.
const DefaultMessageBytes = 1 << 20

// Limits on which both ends of a stream between nodes agree.
const (
	// PeerMessageBytes is the largest message between nodes. The sender cuts answers into chunks.
	PeerMessageBytes = 4 << 20
	// HelloTimeout is the longest silence of a stream before its first message, in both directions.
	HelloTimeout = 5 * time.Second
)
