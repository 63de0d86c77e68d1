package fsm

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"holdfast/session"
)

// progress is the part of the state that moves only after the observers have returned. Reading it takes no lock.
type progress struct {
	index      atomic.Uint64
	attachment atomic.Uint64
	usedUp     sharedNodeSet

	mu      sync.Mutex
	waiting btree.Map[uint64, *waiters] // by the index that they wait for; guarded by mu
}

// waiters are the calls that wait for one index.
type waiters struct {
	reached chan struct{}
	count   int // guarded by progress.mu
}

// nodeSet is a set of node numbers, one bit each.
type nodeSet [4]uint64

func (n *nodeSet) has(node session.Node) bool { return n[node/64]>>(node%64)&1 == 1 }

// all returns the node numbers in n.
func (n *nodeSet) all() (nodes []session.Node) {
	for node := session.Node(1); node <= session.MaxNode; node++ {
		if n.has(node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// sharedNodeSet is a nodeSet that is read without a lock.
type sharedNodeSet [4]atomic.Uint64

func (s *sharedNodeSet) store(n nodeSet) {
	for i := range s {
		s[i].Store(n[i])
	}
}

func (s *sharedNodeSet) has(node session.Node) bool { return s[node/64].Load()>>(node%64)&1 == 1 }

func (s *sharedNodeSet) count() (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i].Load())
	}
	return n
}

// publish shows the index, the attachment and the used-up node numbers, and wakes the calls that wait for index or
// less.
func (p *progress) publish(index, attachment uint64, usedUp nodeSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usedUp.store(usedUp)
	// The attachment goes first: a call that has waited for the index must see the attachment.
	p.attachment.Store(attachment)
	p.index.Store(index)
	for {
		at, w, ok := p.waiting.Min()
		if !ok || at > index {
			return
		}
		p.waiting.Delete(at)
		close(w.reached)
	}
}

// wait returns when index is reached, or with ctx's error.
func (p *progress) wait(ctx context.Context, index uint64) error {
	if p.index.Load() >= index {
		return nil
	}
	w := p.join(index)
	if w == nil {
		return nil
	}
	select {
	case <-w.reached:
		return nil
	case <-ctx.Done():
		p.leave(index, w)
		return ctx.Err()
	}
}

// join counts the caller among the waiters of index. It returns nil when index is already reached.
func (p *progress) join(index uint64) *waiters {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index.Load() >= index {
		return nil
	}
	w, ok := p.waiting.Get(index)
	if !ok {
		w = &waiters{reached: make(chan struct{})}
		p.waiting.Set(index, w)
	}
	w.count++
	return w
}

func (p *progress) leave(index uint64, w *waiters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.count--
	if now, ok := p.waiting.Get(index); ok && now == w && w.count == 0 {
		p.waiting.Delete(index)
	}
}
