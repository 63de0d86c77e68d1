package fsm

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// progress is how far the state has come, as the rest of the node may know it: it moves after the observers have been
// told. Reading it takes no lock.
type progress struct {
	index      atomic.Uint64
	attachment atomic.Uint64

	mu    sync.Mutex
	gates btree.Map[uint64, *gate] // by the index they wait for; guarded by mu
}

// gate is where those who wait for one index wait.
type gate struct {
	opened  chan struct{}
	waiting int // guarded by progress.mu
}

func (p *progress) publish(index, attachment uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The attachment first: who waited for the index must find it.
	p.attachment.Store(attachment)
	p.index.Store(index)
	for {
		at, g, ok := p.gates.Min()
		if !ok || at > index {
			return
		}
		p.gates.Delete(at)
		close(g.opened)
	}
}

func (p *progress) wait(ctx context.Context, index uint64) error {
	if p.index.Load() >= index {
		return nil
	}
	g := p.enter(index)
	if g == nil {
		return nil
	}
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		p.leave(index, g)
		return ctx.Err()
	}
}

// enter returns the gate to wait at, nil when index has been reached.
func (p *progress) enter(index uint64) *gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index.Load() >= index {
		return nil
	}
	g, ok := p.gates.Get(index)
	if !ok {
		g = &gate{opened: make(chan struct{})}
		p.gates.Set(index, g)
	}
	g.waiting++
	return g
}

func (p *progress) leave(index uint64, g *gate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.waiting--
	if now, ok := p.gates.Get(index); ok && now == g && g.waiting == 0 {
		p.gates.Delete(index)
	}
}
