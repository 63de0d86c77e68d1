package port

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"holdfast/session"
)

const (
	// MaxConnectionBytes bounds what waits on one connection, beyond what its sessions and as many requests as one
	// stream may have account for, each twice: requests are refused when half of the bound is used.
	MaxConnectionBytes = 16 << 20
	// RequestBytes is about what a request under way costs beside its message: a goroutine, and what it waits for.
	RequestBytes = 2 << 10
	// SessionBytes is what one session accounts for: its certificate, and its failure in an answer, both at once.
	SessionBytes = 192
	// UnreadSlack is how many received bytes may seem to belong to no complete message before they count: frames and
	// headers never do.
	UnreadSlack = 256 << 10
	// unreadDecay is how many of those are forgotten in a second: a connection that is open for years is tested by
	// pings all the time.
	unreadDecay = 64
	// writtenPart is the part of what is written that is forgotten too: a client tells how much it has read.
	writtenPart = 256
	// framing is about what a message costs beside its bytes, on the wire and in gRPC's queue.
	framing = 64
	// CondemnedWait is how long a client has to read why its connection ends.
	CondemnedWait = time.Second
	// unwrittenWait is how long answers may wait of which gRPC can write none: nothing else ends a client that reads no
	// answers of unary calls. It is long, for on a slow link many large answers end together.
	unwrittenWait = 10 * time.Minute
	// giveBackBytes is how much a connection must leave behind for the memory to be returned to the system,
	// giveBackInterval how often that is done at most: it costs a collection.
	giveBackBytes    = 8 << 20
	giveBackInterval = time.Minute
)

// ledger counts the bytes that a node holds for its clients: answers and events that they have not read, requests under
// way, and what has arrived of messages that are not complete. It leaves out what the sessions of a connection account
// for: the end of a crowd of sessions is not held against the client that held them. Above the limit it ends the
// connections that hold most, until three quarters of the limit are left. Safe for concurrent use.
type ledger struct {
	most int64
	// each is the bound of a connection.
	each  int
	Total atomic.Int64
	// Ended counts connections that were ended for what waited on them.
	Ended [shortages]atomic.Uint64
	// small are buffers for small messages.
	small sync.Pool
	// returned is when memory was last returned, in Unix nanoseconds.
	returned atomic.Int64

	Mu   sync.Mutex
	Open map[*Account]struct{} // guarded by mu
}

// shortage is whose bound a connection was ended for.
type shortage uint8

const (
	// OfConnection is the bound of one connection.
	OfConnection shortage = iota
	// OfNode is that of all together.
	OfNode
	shortages
)

// NewLedger returns one of at most so many bytes, with room on each connection for a number of requests.
func NewLedger(most int64, requests int) *ledger {
	return &ledger{most: most, each: MaxConnectionBytes + 2*requests*RequestBytes, Open: map[*Account]struct{}{}}
}

// Account is what waits on one connection. The zero value counts, and bounds nothing. Safe for concurrent use.
type Account struct {
	ledger *ledger
	// end closes the connection after a while.
	end func(after time.Duration)
	// Condemned is closed when the connection is to end.
	Condemned chan struct{}

	Mu sync.Mutex
	// Bytes is all that waits. unread is what had arrived beyond complete messages at the moment heard. guarded by mu
	Bytes, Unread int
	heard         time.Time
	// Allowance is what the connection's sessions account for, excess what the ledger counts of bytes. guarded by mu
	Allowance, excess int
	// buffers are how many have been got and not put back, late ends the connection when none was put back for too
	// long. guarded by mu
	buffers int
	late    *time.Timer
	Closed  bool                // guarded by mu
	why     *session.LimitError // guarded by mu
}

// NewAccount opens an account, which bounds nothing if l is nil; the caller closes it.
func (l *ledger) NewAccount(end func(after time.Duration)) *Account {
	if l == nil {
		return &Account{}
	}
	a := &Account{ledger: l, end: end, Condemned: make(chan struct{})}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Open[a] = struct{}{}
	return a
}

// Add counts n bytes more, or fewer when n is negative.
func (a *Account) Add(n int) { a.change(func() { a.Bytes += n }) }

// Reserve counts n bytes of a request, unless half of what the connection may have waits already.
func (a *Account) Reserve(n int) error {
	refused := false
	a.change(func() {
		if refused = a.ledger != nil && a.Bytes-a.Allowance+n > a.ledger.each/2; !refused {
			a.Bytes += n
		}
	})
	if !refused {
		return nil
	}
	return &session.LimitError{
		Name: "waiting_bytes_per_connection",
		Limit: strconv.Itoa(a.ledger.each/2) +
			" bytes of requests under way and answers that the client has not read",
		RetryAfter: session.BusyRetryAfter,
	}
}

// Allow notes that the connection has had so many sessions more, or fewer, at once.
func (a *Account) Allow(sessions int) {
	a.change(func() { a.Allowance += sessions * SessionBytes })
}

// Received counts bytes that arrive at now.
func (a *Account) Received(now time.Time, n int) {
	a.arrived(func(unread int) int {
		forgotten := min(int(now.Sub(a.heard)*unreadDecay/time.Second), unread)
		a.heard = now
		return unread - forgotten + n
	})
}

// Complete notes that a message of n bytes is complete, which is counted elsewhere from then on, or the headers of a
// call, which belong to none.
func (a *Account) Complete(n int) {
	a.arrived(func(unread int) int { return max(unread-n-framing, 0) })
}

// wrote notes that n bytes were written. Whoever reads them tells so, with up to 26 bytes for each 16 KiB, and TLS adds
// as many.
func (a *Account) wrote(n int) {
	a.arrived(func(unread int) int { return max(unread-n/writtenPart, 0) })
}

// quiet notes that no call is under way: nothing is unread.
func (a *Account) quiet() { a.arrived(func(int) int { return 0 }) }

func (a *Account) arrived(unread func(int) int) {
	a.change(func() {
		a.Bytes -= max(a.Unread-UnreadSlack, 0)
		a.Unread = unread(a.Unread)
		a.Bytes += max(a.Unread-UnreadSlack, 0)
	})
}

// change does one change, has the ledger count it, and ends the connection if it has too much, or those that have most
// if the node has.
func (a *Account) change(do func()) {
	a.Mu.Lock()
	do()
	if a.Closed || a.ledger == nil {
		a.Mu.Unlock()
		return
	}
	excess := max(a.Bytes-a.Allowance, 0)
	grown, after := excess-a.excess, CondemnedWait
	if a.Unread > a.Bytes/2 {
		after = 0 // nothing more is to arrive
	}
	a.excess = excess
	total := int64(0)
	if grown != 0 {
		// with mu held: of an account that relieve finds closed nothing is counted any more
		total = a.ledger.Total.Add(int64(grown))
	}
	a.Mu.Unlock()
	switch {
	case grown <= 0:
	case excess > a.ledger.each:
		a.condemn(OfConnection, after, &session.LimitError{
			Name: "waiting_bytes_per_connection", Limit: strconv.Itoa(a.ledger.each) +
				" bytes that the client has not read or not completed",
		})
	case total > a.ledger.most:
		a.ledger.relieve()
	}
}

// condemn ends the connection. What waits on it is counted no longer: it is about to be given back.
func (a *Account) condemn(s shortage, after time.Duration, why *session.LimitError) {
	if a.Close(why) {
		a.ledger.Ended[s].Add(1)
		close(a.Condemned)
		a.end(after)
	}
}

// settleUp ends the account of a connection that has ended.
func (a *Account) settleUp() { a.Close(nil) }

// Close ends the account, and reports whether it was open.
func (a *Account) Close(why *session.LimitError) bool {
	a.Mu.Lock()
	if a.Closed {
		a.Mu.Unlock()
		return false
	}
	a.Closed, a.why = true, why
	if a.late != nil {
		a.late.Stop()
	}
	left, l := a.excess, a.ledger
	if l != nil {
		l.Total.Add(-int64(left))
	}
	a.Mu.Unlock()
	if l == nil {
		return true
	}
	l.Mu.Lock()
	delete(l.Open, a)
	l.Mu.Unlock()
	if left >= giveBackBytes {
		l.giveBack()
	}
	return true
}

// Err returns why the connection was condemned.
func (a *Account) Err() error {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.why
}

// relieve ends the connections that hold most.
func (l *ledger) relieve() {
	type holder struct {
		account *Account
		excess  int
	}
	var holders []holder
	l.Mu.Lock()
	for a := range l.Open {
		a.Mu.Lock()
		holders = append(holders, holder{a, a.excess})
		a.Mu.Unlock()
	}
	l.Mu.Unlock()
	slices.SortFunc(holders, func(x, y holder) int { return cmp.Compare(y.excess, x.excess) })
	for _, h := range holders {
		if l.Total.Load() <= l.most*3/4 {
			return
		}
		h.account.condemn(OfNode, 0, &session.LimitError{
			Name: "max_waiting_bytes", Limit: strconv.FormatInt(l.most, 10) +
				" bytes that clients have not read or not completed",
		})
	}
}

// giveBack returns memory to the system, a little later: a node with little to do would not collect it for minutes.
func (l *ledger) giveBack() {
	now, last := time.Now().UnixNano(), l.returned.Load()
	if now-last >= int64(giveBackInterval) && l.returned.CompareAndSwap(last, now) {
		time.AfterFunc(2*CondemnedWait, debug.FreeOSMemory)
	}
}

const (
	// smallBuffer is just large enough for gRPC to say when it needs a buffer no more.
	smallBuffer = 1024 + 128
	// largeBuffer is the size above which gRPC's pool has nothing but buffers of a megabyte.
	largeBuffer = 32 << 10
)

// Get returns a buffer that counts until it is put back, as a [mem.BufferPool] does.
func (a *Account) Get(length int) *[]byte {
	var b *[]byte
	switch {
	case length > largeBuffer || a.ledger == nil:
		b = new(make([]byte, max(length, smallBuffer)))
		*b = (*b)[:length]
	case length > smallBuffer:
		b = mem.DefaultBufferPool().Get(length)
	default:
		var kept bool
		if b, kept = a.ledger.small.Get().(*[]byte); !kept {
			b = new(make([]byte, smallBuffer))
		}
		*b = (*b)[:length]
	}
	a.change(func() {
		a.Bytes += cap(*b) + framing
		if a.buffers++; a.buffers == 1 {
			a.await()
		}
	})
	return b
}

// await gives gRPC time to put a buffer back. Called with mu held.
func (a *Account) await() {
	switch {
	case a.ledger == nil || a.Closed:
	case a.late != nil:
		a.late.Reset(unwrittenWait)
	default:
		a.late = time.AfterFunc(unwrittenWait, func() {
			a.condemn(
				OfConnection, 0, &session.LimitError{Name: "unwritten_wait", Limit: unwrittenWait.String() +
					" in which the client has read no answer"},
			)
		})
	}
}

// Put takes a buffer back, which gRPC has written or given up.
func (a *Account) Put(b *[]byte) {
	a.change(func() {
		a.Bytes -= cap(*b) + framing
		if a.buffers--; a.buffers > 0 {
			a.await()
		} else if a.late != nil {
			a.late.Stop()
		}
	})
	switch {
	case cap(*b) > largeBuffer || a.ledger == nil:
	case cap(*b) > smallBuffer:
		mem.DefaultBufferPool().Put(b)
	default:
		a.ledger.small.Put(b)
	}
}
