package learner

import (
	"fmt"

	"holdfast/session"
)

// parked is a request of a connection in the apply queue, before any request to the leader (N4 seen index). A
// client may name any index, so the end of its connection ends the wait: the queue then keeps nothing of the request.
type parked struct {
	conn *connection
	// request is nil once its wait is over. guarded by conn.mu
	request waiter
}

// park makes a request wait until this node has applied the index that the client has seen.
func (c *connection) park(seen uint64, request waiter) {
	p := &parked{conn: c, request: request}
	c.mu.Lock()
	ended := c.over.Load()
	if !ended {
		if c.parked == nil {
			c.parked = map[*parked]struct{}{}
		}
		c.parked[p] = struct{}{}
	}
	c.mu.Unlock()
	if ended {
		request.applied(errEnded())
		return
	}
	c.server.wait.queue.after(seen, p)
}

// applied ends the wait of the request, unless the connection has ended.
func (p *parked) applied(behind error) {
	p.conn.mu.Lock()
	request := p.remove()
	p.conn.mu.Unlock()
	if request != nil {
		request.applied(behind)
	}
}

// remove removes and returns the request, nil if its wait is over. Called with conn.mu held.
func (p *parked) remove() waiter {
	request := p.request
	p.request = nil
	delete(p.conn.parked, p)
	return request
}

// endWaits ends the waits of an ended connection.
func (c *connection) endWaits() {
	var left []waiter
	c.mu.Lock()
	for p := range c.parked {
		left = append(left, p.remove())
	}
	c.parked = nil
	c.mu.Unlock()
	for _, request := range left {
		request.applied(errEnded())
	}
}

// errEnded is the outcome of a request that waited on an ended connection. No request was sent to the leader.
func errEnded() error { return fmt.Errorf("%w: the connection ended", session.ErrClosed) }
