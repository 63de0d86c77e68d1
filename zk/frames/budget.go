package frames

import (
	"container/list"
	"errors"
	"sync"
)

// maxPartial bounds the memory of a node's incomplete frames, beyond the first [readAhead] bytes of each. Without the
// bound, a client could occupy 1 MiB on each connection with a frame that it never completes.
const maxPartial = 256 << 20

// ErrPartial ends the connection of an incomplete frame that has lost its memory to newer frames.
var ErrPartial = errors.New("incomplete frames hold too much memory, and this frame is the oldest")

// Budget bounds the memory of a node's incomplete frames. When they hold too much, the budget ends the connection of
// the frame that began first: a client that sends whole frames is soon no longer among the oldest. Safe for concurrent
// use.
type Budget struct {
	limit int

	mu    sync.Mutex
	bytes int       // of all frames. guarded by mu
	all   list.List // of *partial, in the order of their starts. guarded by mu
}

// NewBudget returns the budget of a node.
func NewBudget() *Budget { return &Budget{limit: maxPartial} }

// partial is an incomplete frame.
type partial struct {
	end   func(error)
	bytes int
	// at is the frame's place in the list; nil before the frame has grown, and after its end. evicted: the budget has
	// ended the frame. guarded by the mu of Budget
	at      *list.Element
	evicted bool
}

// grow counts more bytes of a frame. It returns an error if the budget has ended the frame.
func (b *Budget) grow(p *partial, bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.evicted {
		return ErrPartial
	}
	if p.at == nil {
		p.at = b.all.PushBack(p)
	}
	p.bytes += bytes
	b.bytes += bytes
	for b.bytes > b.limit {
		oldest := b.all.Front().Value.(*partial) //nolint:errcheck,forcetypeassert // the list has nothing else
		b.remove(oldest)
		oldest.evicted = true
		go oldest.end(ErrPartial) // closing a connection may be slow
	}
	if p.evicted {
		return ErrPartial
	}
	return nil
}

// release returns the bytes of a frame that is complete, or whose connection has ended.
func (b *Budget) release(p *partial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(p)
}

// remove removes a frame from the list. Called with mu held.
func (b *Budget) remove(p *partial) {
	if p.at == nil {
		return
	}
	b.all.Remove(p.at)
	b.bytes -= p.bytes
	p.at = nil
}
