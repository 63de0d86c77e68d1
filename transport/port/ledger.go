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
	// MaxConnectionBytes bounds the waiting bytes of one connection, beyond the allowance of its sessions and room for
	// the requests of two streams. Requests are refused when half of the bound is used.
	MaxConnectionBytes = 16 << 20
	// RequestBytes is about what a request under way costs beside its message. Some have a goroutine with its stack.
	RequestBytes = 2 << 10
	// condemnedWait is how long a client has to read why its connection ends.
	condemnedWait = time.Second
	// giveBackBytes is how much a connection must leave behind for the memory to be returned to the system,
	// giveBackInterval how often that happens at most: it costs a garbage collection.
	giveBackBytes    = 8 << 20
	giveBackInterval = time.Minute
)

// Ledger counts the bytes that a node holds for its clients: answers and events that they have not read, requests under
// way, batches that wait for room for their answers, and the parts of incomplete messages. It leaves out the allowance
// of each connection's sessions: a client is not punished when many of its sessions end at once. Above the limit it
// ends the connections that hold most, until three quarters of the limit are left. Safe for concurrent use.
type Ledger struct {
	most int64
	// perConnection is the bound of a connection.
	perConnection int
	total         atomic.Int64
	// ended counts connections that were ended for their waiting bytes.
	ended [bounds]atomic.Uint64
	// small are buffers for small messages.
	small sync.Pool
	// returned is when memory was last returned, in Unix nanoseconds.
	returned atomic.Int64

	mu   sync.Mutex
	open map[*Account]struct{} // guarded by mu
}

// bound is the bound for which a connection was ended.
type bound uint8

const (
	ofConnection bound = iota
	// ofNode is the bound of all connections together.
	ofNode
	bounds
)

// NewLedger returns a ledger of at most so many bytes, with room on each connection for so many requests.
func NewLedger(most int64, requests int) *Ledger {
	return &Ledger{
		most: most, perConnection: MaxConnectionBytes + 2*requests*RequestBytes, open: map[*Account]struct{}{},
	}
}

// NewAccount opens an account. end is called, without a lock, to close the connection after a while. The account of a
// nil ledger has no bounds.
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

// Waiting returns how many bytes the ledger counts.
func (l *Ledger) Waiting() int64 { return l.total.Load() }

// relieve ends the connections that hold most.
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
		if l.total.Load() <= l.most*3/4 {
			return
		}
		h.account.condemn(ofNode, 0, &session.LimitError{
			Name: "max_waiting_bytes", Limit: strconv.FormatInt(l.most, 10) +
				" bytes that clients have not read or not completed",
		})
	}
}

// closed takes an account off the ledger that had so many bytes counted.
func (l *Ledger) closed(a *Account, left int) {
	l.mu.Lock()
	delete(l.open, a)
	l.mu.Unlock()
	if left >= giveBackBytes {
		l.giveBack()
	}
}

// giveBack returns memory to the system a little later. A node with little to do would not collect it for minutes.
func (l *Ledger) giveBack() {
	now, last := time.Now().UnixNano(), l.returned.Load()
	if now-last >= int64(giveBackInterval) && l.returned.CompareAndSwap(last, now) {
		time.AfterFunc(2*condemnedWait, debug.FreeOSMemory)
	}
}
