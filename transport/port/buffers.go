package port

import (
	"time"

	"google.golang.org/grpc/mem"

	"holdfast/session"
)

const (
	// smallBuffer is the smallest size of buffers that gRPC puts back.
	smallBuffer = 1024 + 128
	// largeBuffer is the size above which gRPC's pool has only buffers of a megabyte.
	largeBuffer = 32 << 10
	// unwrittenWait is the longest time for which answers may wait while gRPC can write none of them: nothing else ends
	// a client that reads no answers of unary calls. It is long because many large answers end together on a slow link.
	unwrittenWait = 10 * time.Minute
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
		var pooled bool
		if b, pooled = a.ledger.small.Get().(*[]byte); !pooled {
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
func (a *Account) await() {
	switch {
	case a.ledger == nil || a.closed:
	case a.late != nil:
		a.late.Reset(unwrittenWait)
	default:
		a.late = time.AfterFunc(unwrittenWait, func() {
			a.condemn(ofConnection, 0, &session.LimitError{
				Name: "write_timeout", Limit: unwrittenWait.String() + " in which the client has read no answer",
			})
		})
	}
}

// Put puts back a buffer that gRPC has written or discarded.
func (a *Account) Put(b *[]byte) {
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
