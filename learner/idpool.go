package learner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// lowPool is how many ids are left when the pool claims more: half of what one claim brings.
const lowPool = session.MaxClaim / 2

// idPool keeps ids for local sessions in stock, so that an open waits for no other node (L2). Safe for concurrent use.
type idPool struct {
	// low makes run look at once at how many ids are left. supplied is told when there are more.
	low      chan struct{}
	supplied *broadcast

	mu sync.Mutex
	// blocks are the claimed ids that are not given out yet, in their order. guarded by mu
	blocks []block
	// refused is why no ids can be claimed, set when only a person can mend that. guarded by mu
	refused error
}

// block is a range of ids: the next one, and how many are left.
type block struct {
	next session.ID
	left uint64
}

func newIDPool() *idPool {
	return &idPool{low: make(chan struct{}, 1), supplied: newBroadcast()}
}

// take takes the next id out, false when there is none.
func (p *idPool) take() (session.ID, bool) {
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

// supply adds a claimed block. Blocks come in the order of their ids, because one claim follows the other.
func (p *idPool) supply(first session.ID, count uint32) {
	p.mu.Lock()
	p.blocks = append(p.blocks, block{first, uint64(count)})
	p.mu.Unlock()
	p.supplied.tell()
}

// left returns how many ids are in stock.
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
	if p.left() < lowPool {
		notify(p.low)
	}
}

// run keeps ids in stock until ctx ends. claim claims a block of session.MaxClaim ids and returns the first. One claim
// is under way at a time; run retries a failed claim after the interval every.
func (p *idPool) run(ctx context.Context, every time.Duration, log hclog.Logger,
	claim func(context.Context) (session.ID, error),
) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if p.left() < lowPool {
			first, err := claim(ctx)
			if err == nil {
				p.supply(first, session.MaxClaim)
				continue
			}
			if p.refuse(err) {
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

// refuse remembers why a claim failed when only a person can mend that, and forgets the reason otherwise. It reports
// whether there was no such reason before.
func (p *idPool) refuse(err error) bool {
	final := errors.Is(err, session.ErrIDsUsedUp) || errors.Is(err, session.ErrInvalid)
	if !final {
		err = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	news := err != nil && p.refused == nil
	p.refused = err
	return news
}

// why returns why there are no ids: the reason that a person has to mend, else session.ErrNoLeader.
func (p *idPool) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused != nil {
		return p.refused
	}
	return session.ErrNoLeader
}
