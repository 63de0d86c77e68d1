package conn

import (
	"math"
	"time"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
)

const (
	// maxResumes bounds the sessions in one message, whatever the node allows.
	maxResumes = 1024
	// fewResumes go out one by one on a connection whose node has not named the largest batch yet. If there are more,
	// the first resume goes out at once, and the others follow the first message of the node.
	fewResumes = 16
	// batchEvery separates the moments at which refused requests of a batch go out again. A node that refuses thousands
	// names as many moments, and those within a few milliseconds share a message.
	batchEvery = 5 * time.Millisecond
)

// Pump sends queued requests, as far as the window allows.
func (m *Manager) Pump(c *Conn) {
	c.Window.Resume(m.now)
	if !c.up {
		return
	}
	for r := c.Window.First(); r != nil && m.sendFirst(c, r); r = c.Window.First() {
	}
}

// sendFirst sends the first request of the queue, alone or in a batch. It reports false if none can be sent now.
func (m *Manager) sendFirst(c *Conn, first *window.Request) bool {
	if b, ok := first.Body.(batched); ok && b.Batches() && !c.alone {
		switch {
		case c.batchUnknown():
			return false
		case c.batch > 1:
			return m.sendBatch(c, b)
		}
	}
	r := c.Window.Next()
	if r == nil {
		return false
	}
	m.Send(c, r)
	return true
}

// sendBatch sends the first requests of the queue with one message. It reports false if none can be sent now.
func (m *Manager) sendBatch(c *Conn, first batched) bool {
	members := c.Window.Together(c.batch, batches)
	switch len(members) {
	case 0:
		return false
	case 1:
		m.Send(c, members[0])
	default:
		m.Send(c, &window.Request{Body: first.Batch(members), Members: members})
	}
	return true
}

// Send sends a request at once.
func (m *Manager) Send(c *Conn, r *window.Request) {
	b, ok := r.Body.(Body)
	if !ok {
		return // each queued body is a Body
	}
	c.Window.Send(r, m.now, m.suspensions)
	m.Effects.Actions = append(m.Effects.Actions, Action{Conn: c, Message: b.Message(r.Seq)})
}

// SendDirect sends b at once, past the queue.
func (m *Manager) SendDirect(c *Conn, b Body) { m.Send(c, c.Window.Direct(b)) }

// SendTouch sends a touch at once, unless too many touches are in flight.
func (m *Manager) SendTouch(c *Conn, b Body) {
	if r := c.Window.Touch(b); r != nil {
		m.Send(c, r)
	}
}

// Probe asks the node of c for a message. While as many touches as possible are in flight, they are the
// question.
func (m *Manager) Probe(c *Conn) {
	c.Window.Probed(m.now)
	m.SendTouch(c, m.handler.SignOfLife(c))
}

// ProbeState asks a node that has sent no message yet for a sign of life, which brings its state.
func (m *Manager) ProbeState(c *Conn) {
	if !c.responded && !c.Window.Pending() {
		m.Probe(c)
	}
}

// Retry repeats r on c later. A request for which the node named a moment is due at that moment, so the requests of a
// client do not come all at once. Requests without such a moment share one back-off, which grows with the refusals in a
// row and with the rounds in which no node served.
func (m *Manager) Retry(c *Conn, r *window.Request, err error) {
	n := max(c.Window.Backoff(), m.router.Rounds)
	early := m.now.Before(r.Named)
	r.Named = time.Time{}
	if route.Hint(err) == 0 {
		c.Window.Defer(r, c.Window.Pause(m.now, func() time.Duration { return m.backoff(n) }))
		return
	}
	if !early {
		r.Refused++
	}
	r.Named = m.now.Add(route.Hint(err))
	wait := m.retryIn(r.Body, max(n, r.Refused), err)
	if c.batch > 1 && batches(r.Body) {
		wait = (wait + batchEvery - 1).Truncate(batchEvery)
	}
	c.Window.Defer(r, m.now.Add(wait))
}

// retryIn returns the wait before a retry: until the moment that the node named, with jitter on top.
func (m *Manager) retryIn(b window.Body, n int, err error) time.Duration {
	if own, ok := b.(retried); ok {
		return own.RetryIn(n, err)
	}
	return m.cfg.Jitter.Wait(n, err)
}

// backoff returns the n-th wait in a row: below a sixth of the smallest timeout, so that a client which was refused for
// long has time for several more attempts once a node serves it again. Without this bound, a client with a timeout of 4
// s waits up to 2 s for its next attempt after an election of 3 s, and as long again if that attempt came too soon.
func (m *Manager) backoff(n int) time.Duration {
	return m.cfg.Jitter.BackoffBelow(n, m.Bound(ConnectPart, math.MaxInt64))
}

// Answered removes the request that seq answers from the window of c. It reports false for an answer without a matching
// request in flight, or to another kind than B. The caller can ignore such an answer.
func Answered[B any](c *Conn, seq uint64) (r *window.Request, body B, ok bool) {
	if r, ok = c.Window.Remove(seq); ok {
		body, ok = r.Body.(B)
	}
	return r, body, ok
}
