package port

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

const (
	// MaxConnectionBytes bounds the waiting bytes of one connection, beyond the allowance of its sessions and the
	// requests of two streams. Requests are refused when half of the bound is used.
	MaxConnectionBytes = 16 << 20
	// RequestBytes is the approximate memory of a request in flight besides its message. Some requests have a goroutine
	// with its stack.
	RequestBytes = 2 << 10
	// condemnedWait is the time that a client has to read why its connection ends.
	condemnedWait = time.Second
	// giveBackBytes is the number of bytes of an ended connection from which the memory is returned to the operating
	// system, giveBackInterval the shortest time between two returns: each costs a garbage collection.
	giveBackBytes    = 8 << 20
	giveBackInterval = time.Minute
)

// Ledger counts the bytes that a node holds for its clients: unread answers and events, requests in flight, batches
// that wait for space for their answers, and parts of incomplete messages. It excludes the allowance of each
// connection's sessions, so that a client is not punished when many of its sessions end at once. Above the limit it
// ends the connections with most bytes, until three quarters of the limit are left. Safe for concurrent use.
type Ledger struct {
	limit int64
	// perConnection is the bound of a connection.
	perConnection int
	total         atomic.Int64
	// ended counts connections that were ended for their waiting bytes.
	ended [bounds]atomic.Uint64
	// small are buffers for small messages.
	small sync.Pool
	// returned is the time of the last return of memory, in Unix nanoseconds.
	returned atomic.Int64

	mu   sync.Mutex
	open map[*Account]struct{} // guarded by mu
}

// bound is the exceeded bound of an ended connection.
type bound uint8

const (
	ofConnection bound = iota
	// ofNode is the bound of all connections together.
	ofNode
	bounds
)

// NewLedger returns a ledger with a bound of limit bytes, in which each connection may have the given number of
// requests.
func NewLedger(limit int64, requests int) *Ledger {
	return &Ledger{
		limit: limit, perConnection: MaxConnectionBytes + 2*requests*RequestBytes, open: map[*Account]struct{}{},
	}
}

// NewAccount opens an account. The ledger calls end, without a lock, to close the connection after the given time. The
// account of a nil ledger has no bounds.
func (l *Ledger) NewAccount(end func(after time.Duration)) *Account {
	if l == nil {
		return &Account{}
	}
	a := &Account{ledger: l, end: end, condemned: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[a] = struct{}{}
	return a
}

// Waiting returns the number of counted bytes.
func (l *Ledger) Waiting() int64 { return l.total.Load() }

// relieve ends the connections with most bytes.
func (l *Ledger) relieve() {
	type holder struct {
		account *Account
		excess  int
	}
	var holders []holder
	l.mu.Lock()
	for a := range l.open {
		a.mu.Lock()
		holders = append(holders, holder{a, a.excess})
		a.mu.Unlock()
	}
	l.mu.Unlock()
	slices.SortFunc(holders, func(x, y holder) int { return cmp.Compare(y.excess, x.excess) })
	for _, h := range holders {
		if l.total.Load() <= l.limit*3/4 {
			return
		}
		h.account.condemn(ofNode, 0, &session.LimitError{
			Name: "max_buffered_bytes", Limit: strconv.FormatInt(l.limit, 10) +
				" bytes that clients have not read or not completed",
		})
	}
}

// closed removes an account with left counted bytes from the ledger.
func (l *Ledger) closed(a *Account, left int) {
	l.mu.Lock()
	delete(l.open, a)
	l.mu.Unlock()
	if left >= giveBackBytes {
		l.returnMemory()
	}
}

// returnMemory returns memory to the operating system a little later. A node with little work would not collect the
// garbage for minutes.
func (l *Ledger) returnMemory() {
	now, last := time.Now().UnixNano(), l.returned.Load()
	if now-last >= int64(giveBackInterval) && l.returned.CompareAndSwap(last, now) {
		time.AfterFunc(2*condemnedWait, debug.FreeOSMemory)
	}
}
