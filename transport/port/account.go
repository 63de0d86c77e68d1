package port

import (
	"strconv"
	"sync"
	"time"

	"holdfast/session"
)

const (
	// SessionBytes is the allowance of one session: its certificate plus its failure in an answer.
	SessionBytes = 192
	// UnreadSlack is the number of received bytes beyond complete messages that do not count: frames and headers never
	// exceed it.
	UnreadSlack = 256 << 10
	// unreadDecay is the number of such bytes that are forgotten in a second. A connection that is open for years
	// receives pings all the time.
	unreadDecay = 64
	// writtenPart is the divisor of the written bytes that are forgotten too: a client acknowledges the bytes that it
	// reads.
	writtenPart = 256
	// framing is the approximate cost of a message besides its bytes, on the wire and in gRPC's queue.
	framing = 64
)

// Account counts the waiting bytes of one connection. The zero value counts and has no bounds. Safe for concurrent use.
type Account struct {
	ledger *Ledger
	// end closes the connection after the given time.
	end func(after time.Duration)
	// condemned is closed when the connection must end.
	condemned chan struct{}

	mu sync.Mutex
	// bytes is the number of all waiting bytes. unread is the number of bytes beyond complete messages that had arrived
	// at the time lastRead. guarded by mu
	bytes, unread int
	lastRead      time.Time
	// allowance is the allowance of the connection's sessions. excess is the part of bytes that the ledger counts.
	// guarded by mu
	allowance, excess int
	// buffers counts the buffers in use. late ends the connection when no buffer was put back for too long. guarded by
	// mu
	buffers int
	late    *time.Timer
	closed  bool                // guarded by mu
	why     *session.LimitError // guarded by mu
}

// Add counts n bytes more, or fewer when n is negative.
func (a *Account) Add(n int) { a.change(func() { a.bytes += n }) }

// Reserve counts n bytes of a request. It refuses them when half of the connection's bound is used.
func (a *Account) Reserve(n int) error {
	refused := false
	a.change(func() {
		if refused = a.ledger != nil && a.bytes-a.allowance+n > a.ledger.perConnection/2; !refused {
			a.bytes += n
		}
	})
	if !refused {
		return nil
	}
	return &session.LimitError{
		Name: "buffered_bytes_per_connection",
		Limit: strconv.Itoa(a.ledger.perConnection/2) +
			" bytes of requests in flight and of answers that the client has not read",
		RetryAfter: session.BusyRetryAfter,
	}
}

// Allow adds the allowance of sessions, or removes it when sessions is negative.
func (a *Account) Allow(sessions int) {
	a.change(func() { a.allowance += sessions * SessionBytes })
}

// Condemned is closed when the connection must end because of its waiting bytes. Err then returns the reason.
func (a *Account) Condemned() <-chan struct{} { return a.condemned }

// Err returns why the connection was condemned.
func (a *Account) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// received counts n bytes that arrived at now.
func (a *Account) received(now time.Time, n int) {
	a.arrived(func(unread int) int {
		forgotten := min(int(now.Sub(a.lastRead)*unreadDecay/time.Second), unread)
		a.lastRead = now
		return unread - forgotten + n
	})
}

// complete subtracts n received bytes: the bytes of a complete message, which then count elsewhere, or of a call's
// headers.
func (a *Account) complete(n int) {
	a.arrived(func(unread int) int { return max(unread-n-framing, 0) })
}

// wrote records that n bytes were written. The reader acknowledges them with up to 26 bytes for each 16 KiB, and TLS
// adds as many.
func (a *Account) wrote(n int) {
	a.arrived(func(unread int) int { return max(unread-n/writtenPart, 0) })
}

// quiet records that no call is in flight: no bytes are unread.
func (a *Account) quiet() { a.arrived(func(int) int { return 0 }) }

func (a *Account) arrived(unread func(int) int) {
	a.change(func() {
		a.bytes -= max(a.unread-UnreadSlack, 0)
		a.unread = unread(a.unread)
		a.bytes += max(a.unread-UnreadSlack, 0)
	})
}

// change makes one change and counts it in the ledger. It ends the connection if the connection exceeds its bound, or
// the connections with most bytes if the node exceeds its bound.
func (a *Account) change(do func()) {
	a.mu.Lock()
	do()
	if a.closed || a.ledger == nil {
		a.mu.Unlock()
		return
	}
	excess := max(a.bytes-a.allowance, 0)
	grown, after := excess-a.excess, condemnedWait
	if a.unread > a.bytes/2 {
		after = 0 // no more bytes should arrive
	}
	a.excess = excess
	total := int64(0)
	if grown != 0 {
		// with mu held: once relieve finds an account closed, its bytes must not be counted any more
		total = a.ledger.total.Add(int64(grown))
	}
	a.mu.Unlock()
	switch {
	case grown <= 0:
	case excess > a.ledger.perConnection:
		a.condemn(ofConnection, after, &session.LimitError{
			Name: "buffered_bytes_per_connection", Limit: strconv.Itoa(a.ledger.perConnection) +
				" bytes that the client has not read or not completed",
		})
	case total > a.ledger.limit:
		a.ledger.relieve()
	}
}

// condemn ends the connection. Its waiting bytes no longer count, because they will be freed soon.
func (a *Account) condemn(b bound, after time.Duration, why *session.LimitError) {
	if a.closeWith(why) {
		a.ledger.ended[b].Add(1)
		close(a.condemned)
		a.end(after)
	}
}

// closeWith closes the account, and reports whether it was open. why is nil when the connection has ended by itself.
func (a *Account) closeWith(why *session.LimitError) bool {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return false
	}
	a.closed, a.why = true, why
	if a.late != nil {
		a.late.Stop()
	}
	left, l := a.excess, a.ledger
	if l != nil {
		l.total.Add(-int64(left))
	}
	a.mu.Unlock()
	if l != nil {
		l.closed(a, left)
	}
	return true
}
