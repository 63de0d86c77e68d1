package dispatch

import (
	"fmt"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/watch"
)

// Limits bound the requests and answers of a connection.
type Limits struct {
	// Requests and Queued bound the number and the bytes of a connection's waiting requests (G8 request bounds).
	Requests, Queued int
	// Unsent is the number of unsent bytes of a connection's answers from which no further read runs (G9 answer
	// bounds).
	Unsent int
	// Watches bounds the bytes of a connection's watches (V1 kinds of watches), Feed its unsent events (V6 LOST).
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

// Bounds of all connections of a node together, in bytes. Each is a [fair.Budget]: a principal may use at most three
// times the free part.
const (
	MaxNodeQueued = 256 << 20 // waiting requests (G8)
	MaxNodeUnsent = 1 << 30   // unsent answers (G9)
)

// Budgets are the memory budgets that the connections of a node share. The owner of a share is a principal, see
// [tree.ShareOf]. Clients without a certificate and an address have one share.
type Budgets struct{ Watches, Queued, Unsent *fair.Budget[string] }

// DefaultBudgets returns the empty budgets of V1, G8 and G9.
func DefaultBudgets() Budgets {
	return Budgets{
		Watches: fair.NewBudget[string](watch.MaxNodeBytes), Queued: fair.NewBudget[string](MaxNodeQueued),
		Unsent: fair.NewBudget[string](MaxNodeUnsent),
	}
}

// shares are a connection's shares of the budgets. All connections of a principal have the same shares.
type shares struct{ watches, queued, unsent *fair.Share[string] }

func (r *Budgets) open(owner string) shares {
	return shares{watches: r.Watches.Share(owner), queued: r.Queued.Share(owner), unsent: r.Unsent.Share(owner)}
}

func (s *shares) close() {
	s.watches.Close()
	s.queued.Close()
	s.unsent.Close()
}

// tooMuchQueued refuses a request above the principal's budget. The condition passes: without a retry time, clients
// would end the request, even a watch.
func tooMuchQueued(r *fair.Budget[string]) error {
	return &session.LimitError{
		Name: "node_queued_bytes", RetryAfter: session.BusyRetryAfter,
		Limit: fmt.Sprintf("%d bytes; one client (certificate subject or address) may use three quarters of the bytes "+
			"that others do not use", r.Limit()),
	}
}

func limitError(name string, limit int, unit string) error {
	return &session.LimitError{Name: name, Limit: fmt.Sprintf("%d %s", limit, unit)}
}
