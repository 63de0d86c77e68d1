package lane

import (
	"fmt"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/watch"
)

// Limits bound what waits at a connection.
type Limits struct {
	// Requests and Queued bound the requests of a connection that wait, by their number and bytes (G8).
	Requests, Queued int
	// Unsent is how many bytes of a connection's answers may be unsent when one of its reads runs (G9).
	Unsent int
	// Watches bounds the bytes of a connection's watches (V1), Feed its unsent events (V6).
	Watches int
	Feed    watch.FeedLimits
}

// DefaultLimits returns the bounds of G8, G9, V1 and V6.
func DefaultLimits() Limits {
	return Limits{
		Requests: 4096, Queued: 4 << 20, Unsent: 4 << 20, Watches: watch.MaxConnectionBytes,
		Feed: watch.DefaultFeedLimits(),
	}
}

// Bounds of all connections of a node together, in bytes. Each is a [fair.Room]: a principal has at most three times
// what is free.
const (
	MaxNodeQueued = 256 << 20 // requests that wait (G8)
	MaxNodeUnsent = 1 << 30   // unsent answers (G9)
)

// Rooms are what the connections of a node share. The owner of a share is a principal, see [tree.ShareOf].
// Clients without a certificate and an address have one share.
type Rooms struct{ Watches, Queued, Unsent *fair.Room[string] }

// DefaultRooms returns the rooms of V1, G8 and G9, empty.
func DefaultRooms() Rooms {
	return Rooms{
		Watches: fair.NewRoom[string](watch.MaxNodeBytes), Queued: fair.NewRoom[string](MaxNodeQueued),
		Unsent: fair.NewRoom[string](MaxNodeUnsent),
	}
}

// shares are a connection's of the rooms. All connections of a principal have the same.
type shares struct{ watches, queued, unsent *fair.Share[string] }

func (r *Rooms) open(owner string) shares {
	return shares{watches: r.Watches.Share(owner), queued: r.Queued.Share(owner), unsent: r.Unsent.Share(owner)}
}

func (s *shares) close() {
	s.watches.Close()
	s.queued.Close()
	s.unsent.Close()
}

// tooMuchQueued refuses a request for which a principal has no room. It passes: without a time to come again, clients
// would end what asks, a watch too.
func tooMuchQueued(r *fair.Room[string]) error {
	return &session.LimitError{
		Name: "node_queued_bytes", RetryAfter: session.BusyRetryAfter,
		Limit: fmt.Sprintf("%d bytes; one client, the subject of a certificate or an address, may take three quarters of "+
			"what others leave", r.Limit()),
	}
}

func limitError(name string, limit int, unit string) error {
	return &session.LimitError{Name: name, Limit: fmt.Sprintf("%d %s", limit, unit)}
}
