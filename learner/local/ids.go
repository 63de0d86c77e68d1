package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// lowPool is the number of remaining ids below which the pool claims more: half of one claim.
const lowPool = session.MaxClaim / 2

// idPool keeps ids for local sessions in stock, so that an open waits for no other node (L2 local ids). Safe for
// concurrent use.
type idPool struct {
	// low has space for one signal: run then counts the remaining ids at once.
	low chan struct{}

	mu sync.Mutex
	// blocks are the claimed and unused ids, in order. guarded by mu
	blocks []block
	// more is closed when the next block arrives; nil while nobody waits. guarded by mu
	more chan struct{}
	// refused is why no ids can be claimed, if only an operator can correct that. guarded by mu
	refused error
}

// block is a range of ids: the next one, and the number of remaining ones.
type block struct {
	next session.ID
	left uint64
}

func newIDPool() *idPool { return &idPool{low: make(chan struct{}, 1)} }

// next removes the next id from the stock; false when there is none.
func (p *idPool) next() (session.ID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.blocks) > 0 {
		b := &p.blocks[0]
		if b.left == 0 {
			p.blocks = p.blocks[1:]
			continue
		}
		b.left--
		b.next++
		return b.next - 1, true
	}
	return 0, false
}

// add adds a claimed block. Blocks arrive in the order of their ids, because claims do not overlap.
func (p *idPool) add(first session.ID, count uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocks = append(p.blocks, block{first, uint64(count)})
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
}

// added returns a channel that the next add closes. Call next after added, so that no add is missed.
func (p *idPool) added() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more == nil {
		p.more = make(chan struct{})
	}
	return p.more
}

// left returns the number of ids in stock.
func (p *idPool) left() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := uint64(0)
	for _, b := range p.blocks {
		left += b.left
	}
	return left
}

// refill makes run claim more ids at once if few are left.
func (p *idPool) refill() {
	if p.left() >= lowPool {
		return
	}
	select {
	case p.low <- struct{}{}:
	default:
	}
}

// run keeps ids in stock until ctx ends. claim claims a block of session.MaxClaim ids and returns the first. One claim
// is in flight at a time; run retries a failed claim after the interval every.
func (p *idPool) run(ctx context.Context, every time.Duration, log hclog.Logger,
	claim func(context.Context) (session.ID, error),
) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if p.left() < lowPool {
			first, err := claim(ctx)
			if err == nil {
				p.add(first, session.MaxClaim)
				continue
			}
			if p.recordFailure(err) {
				log.Error("no ids for local sessions", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-p.low:
		case <-ticker.C:
		}
	}
}

// recordFailure records why a claim failed if only an operator can correct that, and clears the reason otherwise. It
// reports whether the reason is new.
func (p *idPool) recordFailure(err error) (first bool) {
	final := errors.Is(err, session.ErrIDsUsedUp) || errors.Is(err, session.ErrInvalid)
	if !final {
		err = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first = err != nil && p.refused == nil
	p.refused = err
	return first
}

// why returns why there are no ids: the recorded reason, otherwise session.ErrNoLeader.
func (p *idPool) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused != nil {
		return p.refused
	}
	return session.ErrNoLeader
}
