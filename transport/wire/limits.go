package wire

import "time"

// Buffers of one connection. gRPC's defaults of 32 KiB each way would be all of the 32 KB that an idle connection may
// cost; the write buffer is shared between connections and given back while nothing is written.
const (
	ReadBufferBytes  = 4 << 10
	WriteBufferBytes = 16 << 10
)

// DefaultMessageBytes is the largest message of the client port, either way, unless a configuration says otherwise.
const DefaultMessageBytes = 1 << 20

// What the two ends of a stream between nodes agree on.
const (
	// PeerMessageBytes is the largest message between nodes; answers are cut into chunks by who sends them.
	PeerMessageBytes = 4 << 20
	// HelloTimeout is how long a stream may be silent before its first message, either way.
	HelloTimeout = 5 * time.Second
)
