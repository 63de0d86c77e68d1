package port

import (
	"strconv"
	"sync"
	"time"

	"holdfast/session"
)

const (
	// SessionBytes is the allowance of one session: its certificate, and its failure in an answer, both at once.
	SessionBytes = 192
	// UnreadSlack is how many received bytes may seem to belong to no complete message before they count: frames and
	// headers never do.
	UnreadSlack = 256 << 10
	// unreadDecay is how many of those bytes are forgotten in a second. A connection that is open for years receives
	// pings all the time.
	unreadDecay = 64
	// writtenPart is the part of the written bytes that is forgotten too: a client reports how much it has read.
	writtenPart = 256
	// framing is about what a message costs beside its bytes, on the wire and in gRPC's queue.
	framing = 64
)

// Account counts the waiting bytes of one connection. The zero value counts and has no bounds. Safe for concurrent use.
type Account struct {
	ledger *Ledger
	// end closes the connection after a while.
	end func(after time.Duration)
	// condemned is closed when the connection is to end.
	condemned chan struct{}

	mu sync.Mutex
	// bytes is everything that waits. unread is how many bytes had arrived beyond complete messages at the moment
	// heard. guarded by mu
	bytes, unread int
	heard         time.Time
	// allowance is the allowance of the connection's sessions. excess is the part of bytes that the ledger counts.
	// guarded by mu
	allowance, excess int
	// buffers counts those that were got and not put back. late ends the connection when none was put back for too
	// long. guarded by mu
	buffers int
	late    *time.Timer
	closed  bool                // guarded by mu
	why     *session.LimitError // guarded by mu
}

// Add counts n bytes more, or fewer when n is negative.
func (a *Account) Add(n int) { a.change(func() { a.bytes += n }) }

// Reserve counts n bytes of a request, or refuses them when half of the connection's bound is used.
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
		Name: "waiting_bytes_per_connection",
		Limit: strconv.Itoa(a.ledger.perConnection/2) +
			" bytes of requests under way and answers that the client has not read",
		RetryAfter: session.BusyRetryAfter,
	}
}

// Allow adds the allowance of so many sessions, or takes it away when sessions is negative.
func (a *Account) Allow(sessions int) {
	a.change(func() { a.allowance += sessions * SessionBytes })
}

// Condemned is closed when the connection is to end because of its waiting bytes. Err then says why.
func (a *Account) Condemned() <-chan struct{} { return a.condemned }

// Err returns why the connection was condemned.
func (a *Account) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// received counts n bytes that arrive at now.
func (a *Account) received(now time.Time, n int) {
	a.arrived(func(unread int) int {
		forgotten := min(int(now.Sub(a.heard)*unreadDecay/time.Second), unread)
		a.heard = now
		return unread - forgotten + n
	})
}

// complete takes n received bytes off: the bytes of a complete message, which then count elsewhere, or of a call's
// headers.
func (a *Account) complete(n int) {
	a.arrived(func(unread int) int { return max(unread-n-framing, 0) })
}

// wrote notes that n bytes were written. Their reader acknowledges them with up to 26 bytes for each 16 KiB, and TLS
// adds as many.
func (a *Account) wrote(n int) {
	a.arrived(func(unread int) int { return max(unread-n/writtenPart, 0) })
}

// quiet notes that no call is under way: nothing is unread.
func (a *Account) quiet() { a.arrived(func(int) int { return 0 }) }

func (a *Account) arrived(unread func(int) int) {
	a.change(func() {
		a.bytes -= max(a.unread-UnreadSlack, 0)
		a.unread = unread(a.unread)
		a.bytes += max(a.unread-UnreadSlack, 0)
	})
}

// change makes one change and counts it in the ledger. It ends the connection if the connection is over its bound, or
// the connections that hold most if the node is over its own.
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
		after = 0 // nothing more is to arrive
	}
	a.excess = excess
	total := int64(0)
	if grown != 0 {
		// with mu held: once relieve finds an account closed, nothing of it may be counted any more
		total = a.ledger.total.Add(int64(grown))
	}
	a.mu.Unlock()
	switch {
	case grown <= 0:
	case excess > a.ledger.perConnection:
		a.condemn(ofConnection, after, &session.LimitError{
			Name: "waiting_bytes_per_connection", Limit: strconv.Itoa(a.ledger.perConnection) +
				" bytes that the client has not read or not completed",
		})
	case total > a.ledger.most:
		a.ledger.relieve()
	}
}

// condemn ends the connection. Its waiting bytes are no longer counted: they are about to be given back.
func (a *Account) condemn(b bound, after time.Duration, why *session.LimitError) {
	if a.settle(why) {
		a.ledger.ended[b].Add(1)
		close(a.condemned)
		a.end(after)
	}
}

// settle ends the account, and reports whether it was open. why is nil when the connection has ended by itself.
func (a *Account) settle(why *session.LimitError) bool {
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
