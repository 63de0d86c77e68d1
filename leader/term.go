package leader

import (
	"fmt"
	"sync"
)

// term is the Raft term that the tracker leads: its number, and its end. Safe for concurrent use.
type term struct {
	number uint64
	view   Consensus
	once   sync.Once
	// reason is why the term ended. It is set before over is closed, and read only afterwards.
	reason error
	// over is closed when the term ends.
	over chan struct{}
}

func newTerm(number uint64, view Consensus) *term {
	return &term{number: number, view: view, over: make(chan struct{})}
}

// end ends the term. The first reason counts.
func (t *term) end(reason error) {
	t.once.Do(func() {
		t.reason = reason
		close(t.over)
	})
}

// isOver reports whether the term has ended.
func (t *term) isOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// current reports whether Raft on this node is still in the term. A newer term ends this one (R3 good rounds).
func (t *term) current() bool {
	now := t.view.Term()
	if now > t.number {
		t.end(fmt.Errorf("lead term %d: this node is in term %d: %w", t.number, now, ErrTermOver))
	}
	return now == t.number
}
