package play

import (
	"sync"
	"testing"

	"holdfast/bench/system"
	"holdfast/test/bubble"
)

// taker is a connection that takes over all sessions.
type taker struct {
	system.Conn
	mu   sync.Mutex
	took int // guarded by mu
}

func (*taker) Touch(done func(error)) { done(nil) }

func (c *taker) Reattach(_ system.Session, done func(error)) {
	c.mu.Lock()
	c.took++
	c.mu.Unlock()
	done(nil)
}

// A connection may have had no session, or one.
func TestSettle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 5} {
			f, to := &full{}, &taker{}
			if err := f.settle(t.Context(), to, make([]system.Session, n)); err != nil || to.took != n {
				t.Errorf("%d sessions: moved %d, %v", n, to.took, err)
			}
		}
	})
}
