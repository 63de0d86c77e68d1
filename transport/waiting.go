package transport

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
	// maxConnectionBytes bounds what waits on one connection, beyond what its sessions and as many requests as one stream may have account
	// for, each twice: requests are refused when half of the bound is used.
	maxConnectionBytes = 16 << 20
	// requestBytes is about what a request under way costs beside its message: a goroutine, and what it waits for.
	requestBytes = 2 << 10
	// sessionBytes is what one session accounts for: its certificate, and its failure in an answer, both at once.
	sessionBytes = 192
	// unreadSlack is how many received bytes may seem to belong to no complete message before they count: frames and headers never do.
	unreadSlack = 256 << 10
	// unreadDecay is how many of those are forgotten in a second: a connection that is open for years is tested by pings all the time.
	unreadDecay = 64
	// writtenPart is the part of what is written that is forgotten too: a client tells how much it has read.
	writtenPart = 256
	// framing is about what a message costs beside its bytes, on the wire and in gRPC's queue.
	framing = 64
	// condemnedWait is how long a client has to read why its connection ends.
	condemnedWait = time.Second
	// unwrittenWait is how long answers may wait of which gRPC can write none: nothing else ends a client that reads no answers of unary calls.
	// It is long, for on a slow link many large answers end together.
	unwrittenWait = 10 * time.Minute
	// giveBackBytes is how much a connection must leave behind for the memory to be returned to the system, giveBackInterval how often
	// that is done at most: it costs a collection.
	giveBackBytes    = 8 << 20
	giveBackInterval = time.Minute
)

// ledger counts the bytes that a node holds for its clients: answers and events that they have not read, requests under way, and what has
// arrived of messages that are not complete. It leaves out what the sessions of a connection account for: the end of a crowd of sessions
// is not held against the client that held them. Above the limit it ends the connections that hold most, until three quarters of the
// limit are left. Safe for concurrent use.
type ledger struct {
	most int64
	// each is the bound of a connection.
	each  int
	total atomic.Int64
	// ended counts connections that were ended for what waited on them.
	ended [shortages]atomic.Uint64
	// small are buffers for small messages.
	small sync.Pool
	// returned is when memory was last returned, in Unix nanoseconds.
	returned atomic.Int64

	mu   sync.Mutex
	open map[*account]struct{} // guarded by mu
}

// shortage is whose bound a connection was ended for.
type shortage uint8

const (
	ofConnection shortage = iota
	ofNode
	shortages
)

// newLedger returns one of at most so many bytes, with room on each connection for a number of requests.
func newLedger(most int64, requests int) *ledger {
	return &ledger{most: most, each: maxConnectionBytes + 2*requests*requestBytes, open: map[*account]struct{}{}}
}

// account is what waits on one connection. The zero value counts, and bounds nothing. Safe for concurrent use.
type account struct {
	ledger *ledger
	// end closes the connection after a while.
	end func(after time.Duration)
	// condemned is closed when the connection is to end.
	condemned chan struct{}

	mu sync.Mutex
	// bytes is all that waits. unread is what had arrived beyond complete messages at the moment heard. guarded by mu
	bytes, unread int
	heard         time.Time
	// allowance is what the connection's sessions account for, excess what the ledger counts of bytes. guarded by mu
	allowance, excess int
	// buffers are how many have been got and not put back, late ends the connection when none was put back for too long. guarded by mu
	buffers int
	late    *time.Timer
	closed  bool                // guarded by mu
	why     *session.LimitError // guarded by mu
}

// newAccount opens an account, which bounds nothing if l is nil; the caller closes it.
func (l *ledger) newAccount(end func(after time.Duration)) *account {
	if l == nil {
		return &account{}
	}
	a := &account{ledger: l, end: end, condemned: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[a] = struct{}{}
	return a
}

// add counts n bytes more, or fewer when n is negative.
func (a *account) add(n int) { a.change(func() { a.bytes += n }) }

// reserve counts n bytes of a request, unless half of what the connection may have waits already.
func (a *account) reserve(n int) error {
	refused := false
	a.change(func() {
		if refused = a.ledger != nil && a.bytes-a.allowance+n > a.ledger.each/2; !refused {
			a.bytes += n
		}
	})
	if !refused {
		return nil
	}
	return &session.LimitError{
		Name:       "waiting_bytes_per_connection",
		Limit:      strconv.Itoa(a.ledger.each/2) + " bytes of requests under way and answers that the client has not read",
		RetryAfter: session.BusyRetryAfter,
	}
}

// allow notes that the connection has had so many sessions more, or fewer, at once.
func (a *account) allow(sessions int) {
	a.change(func() { a.allowance += sessions * sessionBytes })
}

// received counts bytes that arrive at now.
func (a *account) received(now time.Time, n int) {
	a.arrived(func(unread int) int {
		forgotten := min(int(now.Sub(a.heard)*unreadDecay/time.Second), unread)
		a.heard = now
		return unread - forgotten + n
	})
}

// complete notes that a message of n bytes is complete, which is counted elsewhere from then on, or the headers of a call, which belong to none.
func (a *account) complete(n int) {
	a.arrived(func(unread int) int { return max(unread-n-framing, 0) })
}

// wrote notes that n bytes were written. Whoever reads them tells so, with up to 26 bytes for each 16 KiB, and TLS adds as many.
func (a *account) wrote(n int) {
	a.arrived(func(unread int) int { return max(unread-n/writtenPart, 0) })
}

// quiet notes that no call is under way: nothing is unread.
func (a *account) quiet() { a.arrived(func(int) int { return 0 }) }

func (a *account) arrived(unread func(int) int) {
	a.change(func() {
		a.bytes -= max(a.unread-unreadSlack, 0)
		a.unread = unread(a.unread)
		a.bytes += max(a.unread-unreadSlack, 0)
	})
}

// change does one change, has the ledger count it, and ends the connection if it has too much, or those that have most if the node has.
func (a *account) change(do func()) {
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
		total = a.ledger.total.Add(int64(grown)) // with mu held: of an account that relieve finds closed nothing is counted any more
	}
	a.mu.Unlock()
	switch {
	case grown <= 0:
	case excess > a.ledger.each:
		a.condemn(ofConnection, after, &session.LimitError{
			Name: "waiting_bytes_per_connection", Limit: strconv.Itoa(a.ledger.each) + " bytes that the client has not read or not completed",
		})
	case total > a.ledger.most:
		a.ledger.relieve()
	}
}

// condemn ends the connection. What waits on it is counted no longer: it is about to be given back.
func (a *account) condemn(s shortage, after time.Duration, why *session.LimitError) {
	if a.close(why) {
		a.ledger.ended[s].Add(1)
		close(a.condemned)
		a.end(after)
	}
}

// settleUp ends the account of a connection that has ended.
func (a *account) settleUp() { a.close(nil) }

// close ends the account, and reports whether it was open.
func (a *account) close(why *session.LimitError) bool {
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
	if l == nil {
		return true
	}
	l.mu.Lock()
	delete(l.open, a)
	l.mu.Unlock()
	if left >= giveBackBytes {
		l.giveBack()
	}
	return true
}

// err returns why the connection was condemned.
func (a *account) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// relieve ends the connections that hold most.
func (l *ledger) relieve() {
	type holder struct {
		account *account
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
			Name: "max_waiting_bytes", Limit: strconv.FormatInt(l.most, 10) + " bytes that clients have not read or not completed",
		})
	}
}

// giveBack returns memory to the system, a little later: a node with little to do would not collect it for minutes.
func (l *ledger) giveBack() {
	now, last := time.Now().UnixNano(), l.returned.Load()
	if now-last >= int64(giveBackInterval) && l.returned.CompareAndSwap(last, now) {
		time.AfterFunc(2*condemnedWait, debug.FreeOSMemory)
	}
}

const (
	// smallBuffer is just large enough for gRPC to say when it needs a buffer no more.
	smallBuffer = 1024 + 128
	// largeBuffer is the size above which gRPC's pool has nothing but buffers of a megabyte.
	largeBuffer = 32 << 10
)

// Get returns a buffer that counts until it is put back, as a [mem.BufferPool] does.
func (a *account) Get(length int) *[]byte {
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
		a.bytes += cap(*b) + framing
		if a.buffers++; a.buffers == 1 {
			a.await()
		}
	})
	return b
}

// await gives gRPC time to put a buffer back. Called with mu held.
func (a *account) await() {
	switch {
	case a.ledger == nil || a.closed:
	case a.late != nil:
		a.late.Reset(unwrittenWait)
	default:
		a.late = time.AfterFunc(unwrittenWait, func() {
			a.condemn(ofConnection, 0, &session.LimitError{Name: "unwritten_wait", Limit: unwrittenWait.String() + " in which the client has read no answer"})
		})
	}
}

// Put takes a buffer back, which gRPC has written or given up.
func (a *account) Put(b *[]byte) {
	a.change(func() {
		a.bytes -= cap(*b) + framing
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
