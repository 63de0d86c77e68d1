package play

import (
	"sync"
	"testing"

	"holdfast/bench/system"
	"holdfast/test/bubble"
)

// mover is a connection to which all sessions are moved.
type mover struct {
	system.Conn
	mu    sync.Mutex
	moved int // guarded by mu
}

func (*mover) Touch(done func(error)) { done(nil) }

func (c *mover) Reattach(_ system.Session, done func(error)) {
	c.mu.Lock()
	c.moved++
	c.mu.Unlock()
	done(nil)
}

// A connection may have had no session, or one.
func TestMoveTo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 2, 5} {
			f, to := &full{moving: reattach}, &mover{}
			if err := f.moveTo(t.Context(), to, make([]system.Session, n)); err != nil || to.moved != n {
				t.Errorf("%d sessions: moved %d, %v", n, to.moved, err)
			}
		}
	})
}
