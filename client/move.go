package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Why a node is left.
var (
	errSilent   = errors.New("promises are not renewed")
	errStalled  = errors.New("requests are not answered")
	errJeopardy = errors.New("node hears of no leader with a quorum")
	errSlow     = errors.New("no answer in time")
	// errOvertaken: a resume of this client took effect after another one of it.
	errOvertaken = errors.New("resumed elsewhere by a late request of this client")
)

// maxLearnt bounds the addresses learnt from nodes; the oldest is forgotten.
const maxLearnt = 16

// mover chooses where to go. It is a part of the loop.
type mover struct {
	endpoints []string // configured
	learnt    []string // told by nodes
	last      string   // served most recently: tried last

	moving bool
	first  string    // tried before the others of the round
	left   []string  // of this round
	rounds int       // that came to nothing, in a row
	at     time.Time // of the next attempt
	// fresh: a node has served something since the last move began, so the next move begins a new row of rounds.
	fresh bool
}

// round returns all addresses: the configured ones in random order, those learnt, and the one tried last.
func (m *mover) round(d *dice) []string {
	endpoints, learnt := slices.Clone(m.endpoints), slices.Clone(m.learnt)
	d.shuffle(endpoints)
	d.shuffle(learnt)
	all := append(endpoints, learnt...)
	if i := slices.Index(all, m.last); i >= 0 {
		all = append(slices.Delete(all, i, i+1), m.last)
	}
	return all
}

// learn adds addresses that a node told.
func (m *mover) learn(addresses []string) {
	for _, a := range addresses {
		_, port, err := net.SplitHostPort(a)
		if err != nil || port == "" || slices.Contains(m.endpoints, a) || slices.Contains(m.learnt, a) {
			continue
		}
		m.learnt = append(m.learnt, a)
		if len(m.learnt) > maxLearnt {
			m.learnt = slices.Delete(m.learnt, 0, 1)
		}
	}
}

// prefer has address tried next, if it has not been tried in this round: two nodes that name each other get no more
// attempts than others.
func (m *mover) prefer(address string) {
	m.learn([]string{address})
	m.first = address
}

// pop returns the next address to try.
func (m *mover) pop(d *dice) string {
	if len(m.left) == 0 {
		m.left = m.round(d)
	}
	i := max(slices.Index(m.left, m.first), 0)
	address := m.left[i]
	m.left = slices.Delete(m.left, i, i+1)
	m.first = ""
	return address
}

// failed notes that an attempt came to nothing. After the last of a round comes a back-off.
func (m *mover) failed(now time.Time, d *dice) {
	if len(m.left) == 0 {
		m.rounds++
		m.at = now.Add(d.backoff(m.rounds))
	}
}

// leave looks for another node because of what is wrong with c. The sessions stay on c, and are touched there, until the
// other one has served something.
func (l *loop) leave(c *conn, why error) {
	l.trouble = fmt.Errorf("%s: %w", c.address, why)
	if c != l.cur || c.failing != nil {
		return
	}
	c.failing = why
	l.logger.Info("looking for another node", "address", c.address, "error", why)
	l.beginMove()
}

func (l *loop) beginMove() {
	if l.mover.moving {
		return
	}
	l.mover.moving = true
	if !l.mover.fresh {
		l.mover.failed(l.now, l.dice) // the node that is left has served nothing
		return
	}
	l.mover.fresh, l.mover.rounds, l.mover.at = false, 0, l.now
	l.mover.left = l.mover.round(l.dice)
}

// endMove stays where the client is.
func (l *loop) endMove() {
	l.mover.moving = false
	if l.next != nil {
		l.drop(l.next, nil)
	}
}

// advance tries the next node when it is time.
func (l *loop) advance(ctx context.Context) {
	m := &l.mover
	if !m.moving || l.next != nil || l.now.Before(m.at) {
		return
	}
	l.next = l.dial(ctx, m.pop(l.dice))
	l.next.deadline = l.now.Add(l.bound(6, l.cfg.ConnectTimeout))
}

// bound returns a part of the smallest timeout, at most limit.
func (l *loop) bound(part, limit time.Duration) time.Duration {
	for _, h := range l.sessions {
		if h.timeout > 0 {
			limit = min(limit, h.timeout/part)
		}
	}
	return limit
}

// connected goes on with a connection that has come up: every session is resumed on it, and what it answers decides
// whether it is kept. Without sessions it is kept at once.
func (l *loop) connected(c *conn) {
	c.up = true
	if c != l.next {
		return
	}
	c.deadline = l.now.Add(l.bound(3, patience))
	for _, h := range l.sessions {
		l.queueResume(c, h)
	}
}

// served notes that c has done something for this client that only a node in touch with a leader can do.
func (l *loop) served(c *conn) {
	l.mover.fresh = true
	c.pauses = 0
	l.trouble = nil
	if c == l.next {
		l.adopt()
		return
	}
	if c.failing == nil || c.jeopardy {
		return
	}
	c.failing = nil
	if l.next == nil || !l.next.up {
		l.endMove() // it has recovered before another node was asked for anything
	}
}

// adopt makes the connection that was tried the one that serves, and drops the former one.
func (l *loop) adopt() {
	former := l.cur
	l.cur, l.next = l.next, nil
	l.cur.deadline = time.Time{}
	l.mover.moving = false
	l.mover.last = l.cur.address
	l.logger.Info("connected", "address", l.cur.address)
	if former != nil {
		l.drop(former, nil)
	}
	l.rejoin()
	for c := range l.opens {
		if c.h == nil {
			l.queueOpen(c)
		}
	}
}

// lost handles the end of a connection.
func (l *loop) lost(c *conn, err error) {
	if c == l.next {
		l.failedNext(unreachable(c.address, err))
		return
	}
	l.logger.Info("connection lost", "address", c.address, "error", err)
	l.trouble = unreachable(c.address, err)
	l.drop(c, err)
	l.rejoin()
}

// failedNext gives up the connection that was tried.
func (l *loop) failedNext(err error) {
	l.logger.Debug("node does not serve", "address", l.next.address, "error", err)
	l.trouble = err
	l.drop(l.next, err)
	l.mover.failed(l.now, l.dice)
	l.rejoin()
}

// drop forgets a connection. Requests that wait on it go through the next one; the outcome of its resumes will never be
// heard. Sessions that it served are told when err is set.
func (l *loop) drop(c *conn, err error) {
	c.cancel()
	if c == l.cur {
		l.cur = nil
	} else {
		l.next = nil
	}
	for _, r := range c.inflight {
		if b, ok := r.body.(*resumeBody); ok {
			b.h.unsettled = max(b.h.unsettled, b.attempt)
		}
	}
	queued := slices.Concat(slices.Collect(maps.Values(c.inflight)), c.queue, c.again)
	for _, r := range queued {
		if b, ok := r.body.(*resumeBody); ok && b.h.resuming == r {
			b.h.resuming = nil
		}
	}
	for _, h := range l.sessions {
		// One that was not resumed here yet after the former connection was dropped is served by nobody now either.
		if adrift := h.on == nil && h.s.State() != StateConnecting; err != nil && (h.on == c || adrift) {
			l.emit(h, disconnected, err)
		}
		if h.on == c {
			h.on = nil
		}
	}
}

// checkConns gives up connections that take too long, and has one made when there is none.
func (l *loop) checkConns() {
	if c := l.next; c != nil {
		switch {
		case c.up && len(l.sessions) == 0:
			l.adopt()
		case !l.now.Before(c.deadline):
			l.failedNext(unreachable(c.address, errSlow))
		}
	}
	if c := l.cur; c == nil {
		l.beginMove()
	} else if at := c.stallsAt(); !at.IsZero() && !l.now.Before(at) {
		l.leave(c, errStalled)
	}
}

// inJeopardy handles a node's word that touches may not count (S4).
func (l *loop) inJeopardy(c *conn, m *holdfastv1.Jeopardy) {
	l.mover.learn(m.GetTry())
	c.jeopardy = true
	if c == l.next {
		// After a fail-over every node says so until it hears of the new leader's first good round, and would move the
		// sessions all the same. What it answers counts, if it does soon: trying one node after the other would have
		// each of them move all sessions.
		c.deadline = earliest(c.deadline, l.now.Add(l.bound(12, l.cfg.ConnectTimeout)))
		l.trouble = fmt.Errorf("%s: %w", c.address, errJeopardy)
		return
	}
	l.tellAll(c, errJeopardy, func(*held) trigger { return endangered })
	l.leave(c, errJeopardy)
}

// tellAll tells every session that c serves what happened to it.
func (l *loop) tellAll(c *conn, err error, what func(*held) trigger) {
	for _, h := range l.sessions {
		if h.on == c {
			l.emit(h, what(h), err)
		}
	}
}
