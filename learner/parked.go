package learner

import (
	"fmt"

	"holdfast/session"
)

// parked is a request of a connection in the apply queue, before the leader is asked for anything (N4). A client may
// name any index, so the end of its connection ends the wait: the queue keeps nothing of the request then.
type parked struct {
	conn *connection
	// request is nil once the request has been told. guarded by conn.mu
	request waiter
}

// park lets a request wait until this node has applied what the client has seen.
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

// applied tells the request that its wait is over, unless the connection has ended.
func (p *parked) applied(behind error) {
	p.conn.mu.Lock()
	request := p.take()
	p.conn.mu.Unlock()
	if request != nil {
		request.applied(behind)
	}
}

// take takes the request out, nil if it has been told. Called with conn.mu held.
func (p *parked) take() waiter {
	request := p.request
	p.request = nil
	delete(p.conn.parked, p)
	return request
}

// leave ends the waits of a connection that has ended.
func (c *connection) leave() {
	var left []waiter
	c.mu.Lock()
	for p := range c.parked {
		left = append(left, p.take())
	}
	c.parked = nil
	c.mu.Unlock()
	for _, request := range left {
		request.applied(errEnded())
	}
}

// errEnded is the outcome of a request that waited on a connection which has ended: nothing was asked for it.
func errEnded() error { return fmt.Errorf("%w: the connection ended", session.ErrClosed) }
