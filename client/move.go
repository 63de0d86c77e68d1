package client

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Why a node is left.
var (
	errSilent   = errors.New("promises are not renewed")
	errStalled  = errors.New("requests are not answered")
	errJeopardy = errors.New("node hears of no leader with a quorum")
	errSlow     = errors.New("no answer in time")
	// errNoAddress: a name without addresses.
	errNoAddress = errors.New("name has no address")
	// errOvertaken: a resume of this client took effect after another one of it.
	errOvertaken = errors.New("resumed elsewhere by a late request of this client")
)

// Parts of a session's timeout T. The silence of a node is noticed T/3 after the sending of the last touch that it
// answered (see silence.go), and then two other nodes can be given T/4 each before T is over: 1/3 + 2/4 = 5/6. An
// attempt that does not even connect takes less: after T/24 the next one is made beside it.
const (
	hedgePart   = 24
	connectPart = 6
	tryPart     = 4
	// latePart is for a round after one that came to nothing: what was promised is used up, and going round faster than
	// nodes can answer helps nobody.
	latePart = 3
	// jeopardyPart is what a node that says it hears of no leader is given to serve all the same.
	jeopardyPart = 12
)

// leave looks for another node because of what is wrong with c. The sessions stay on c, and are touched there, until
// the other one has served something.
func (l *loop) leave(c *conn, why error) {
	if errors.Is(why, errStalled) { // which is no word of the node
		l.trouble.Met(route.Unreachable(c.Address, why))
	} else {
		l.trouble.Met(fmt.Errorf("%s: %w", c.Address, why))
	}
	if c != l.cur || c.failing != nil {
		return
	}
	c.failing = why
	l.logger.Info("looking for another node", "address", c.Address, "error", why)
	l.beginMove()
}

func (l *loop) beginMove() {
	m := &l.router
	if m.Moving {
		return
	}
	m.Moving = true
	if !m.Fresh {
		l.tryOn() // the node that is left has served nothing
		return
	}
	m.Fresh, m.Begun, m.Asked, m.Rounds, m.At = false, false, 0, 0, l.now
}

// endMove stays where the client is.
func (l *loop) endMove() {
	l.router.Moving = false
	l.dropRacing()
	if l.next != nil {
		l.drop(l.next, nil)
	}
}

// recovered reports whether the client looks for another node, and has no reason to any more.
func (l *loop) recovered() bool { return l.cur != nil && l.cur.failing == nil && !l.readOnly(l.cur) }

// stay ends a move at the node that served when it began, while another one is still tried. What was begun during the
// move, and only that one has been asked for, is asked for where the client stays, once what is being done is done: see
// step. (One that fails leaves the same to failedNext.)
func (l *loop) stay() {
	l.endMove()
	l.stayed = true
}

// dropRacing gives up the attempts to connect that are under way: they are tried again when the round goes on.
func (l *loop) dropRacing() {
	for _, c := range l.racing {
		c.cancel()
		l.router.PutBack(c.Target)
	}
	l.racing = nil
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

// connected goes on with the first connection that has come up, and closes those that race it: every session is resumed
// on it, or one to begin with (see probe), and what it answers decides whether it is kept. Without sessions it is kept
// at once. Sessions are never resumed on two connections at a time on purpose: each resume is an entry of the log, and
// takes the session from the other one.
func (l *loop) connected(c *conn) {
	i := slices.Index(l.racing, c)
	if i < 0 {
		return
	}
	c.up = true
	l.racing = slices.Delete(l.racing, i, i+1)
	l.dropRacing()
	l.next = c
	if c.deadline = c.dialled.Add(l.bound(tryPart, patience)); l.router.Rounds > 0 {
		c.deadline = l.now.Add(l.bound(latePart, patience))
	}
	l.tryNext(c)
}

// served notes that c has done something for this client that only a node in touch with a leader can do.
func (l *loop) served(c *conn) {
	l.router.Fresh, l.router.Refused = true, false
	c.pauses = 0
	l.trouble = route.Failure{}
	if c == l.next {
		l.adopt()
		return
	}
	if c.failing == nil || c.jeopardy || l.readOnly(c) || c.dismissed() {
		return
	}
	c.failing = nil
	if l.next == nil || l.next.putsOff() {
		l.stay() // it has recovered before another node has done anything
	}
}

// adopt makes the connection that was tried the one that serves, and drops the former one.
func (l *loop) adopt() {
	former := l.cur
	l.cur, l.next = l.next, nil
	l.cur.deadline, l.cur.probing, l.cur.probe = time.Time{}, false, nil
	l.router.Moving = false
	l.router.Last, l.router.NotBefore = l.cur.Server, nil
	if l.settled != nil {
		l.settled(l.cur.Server)
	}
	l.logger.Info("connected", "address", l.cur.Address)
	if former != nil {
		l.drop(former, nil)
	}
	l.rejoin()
	l.queueOpens()
}

// lost handles the end of a connection.
func (l *loop) lost(c *conn, err error) {
	switch {
	case c == l.next:
		l.failedNext(route.Unreachable(c.Address, err))
		return
	case c != l.cur:
		l.failedRacing(c, route.Unreachable(c.Address, err))
		return
	}
	l.logger.Info("connection lost", "address", c.Address, "error", err)
	l.trouble.Met(route.Unreachable(c.Address, err))
	l.drop(c, err)
	l.rejoin()
}

// failedRacing gives up an attempt to connect.
func (l *loop) failedRacing(c *conn, err error) {
	l.logger.Debug("node cannot be reached", "address", c.Address, "error", err)
	c.cancel()
	l.racing = slices.DeleteFunc(l.racing, func(other *conn) bool { return other == c })
	l.attemptFailed(err)
}

// failedNext gives up the connection that was tried.
func (l *loop) failedNext(err error) {
	l.logger.Debug("node does not serve", "address", l.next.Address, "error", err)
	l.drop(l.next, err)
	l.router.Refused = l.router.Refused || errors.Is(err, session.ErrReadOnly)
	l.router.Lag.Note(err)
	if l.recovered() {
		l.trouble.Met(err)
		l.stay()
	} else {
		l.attemptFailed(err)
	}
	l.rejoin()
	if l.takesWrites() {
		l.queueOpens() // one of them may have been on its way there
	}
}

// drop forgets a connection. Requests that wait on it go through the next one, unless they were sent and their
// callers want to know instead; the outcome of its resumes will never be heard: one that takes effect later is known
// by its instance (see moved). Sessions that it served are told when err is set.
func (l *loop) drop(c *conn, err error) {
	c.cancel()
	if c == l.cur {
		l.cur = nil
	} else {
		l.next = nil
	}
	for _, r := range c.inflight {
		switch b := r.body.(type) {
		case *resumeBody:
			l.unknown(b.h.joining)
		case *openBody:
			l.unknown(b.call)
		case *closeBody:
			for _, call := range slices.Clone(b.h.closing) {
				l.unknown(call)
			}
		case *upgradeBody:
			for _, call := range slices.Clone(b.h.upgrading) {
				l.unknown(call)
			}
		}
	}
	for _, r := range slices.Concat(slices.Collect(maps.Values(c.inflight)), c.queue, c.again) {
		r.release()
	}
	l.unserve(c, err)
}

// release leaves what r asks for to the next connection.
func (r *request) release() {
	switch b := r.body.(type) {
	case *resumeBody:
		if b.h.resuming == r {
			b.h.resuming = nil
		}
	case *openBody:
		if b.call.on == b.on {
			b.call.on = nil
		}
	}
}

// unserve notes that c serves no session any more.
func (l *loop) unserve(c *conn, err error) {
	for _, h := range l.sessions {
		// One that was not resumed here yet after the former connection was dropped is served by nobody now either.
		adrift := h.on == nil && h.s.State() != StateConnecting && !l.readOnly(l.cur)
		if err != nil && (h.on == c || adrift) {
			l.emit(h, disconnected, err)
		}
		if h.on == c {
			h.on = nil
		}
	}
}

// unknown answers a caller who wants to know that the outcome of its request will not be heard.
func (l *loop) unknown(c *call) {
	if c != nil && l.cfg.InFlight == FailInFlight {
		l.giveUp(c, session.ErrOutcomeUnknown)
	}
}

// checkConns gives up connections that take too long, and has one made when there is none.
func (l *loop) checkConns() {
	for _, c := range slices.Clone(l.racing) {
		if !l.now.Before(c.deadline) {
			l.failedRacing(c, route.Unreachable(c.Address, errSlow))
		}
	}
	if c := l.next; c != nil {
		switch {
		case c.up && len(l.sessions) == 0 && !l.readOnly(l.cur):
			l.adopt()
		case !l.now.Before(c.deadline):
			l.failedNext(route.Unreachable(c.Address, errSlow))
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
	l.router.Learn(m.GetTry())
	again := c.jeopardy
	c.jeopardy = true
	if c == l.next {
		// After a fail-over every node says so until it hears of the new leader's first good round, and would move the
		// sessions all the same. What it answers counts, if it does soon: trying one node after the other would have
		// each of them move all sessions.
		c.deadline = route.Earliest(c.deadline, l.now.Add(l.bound(jeopardyPart, l.cfg.ConnectTimeout)))
		l.trouble.Met(fmt.Errorf("%s: %w", c.Address, errJeopardy))
		return
	}
	if l.readOnly(c) {
		return // which says more: the sessions know, and another node is looked for
	}
	if !again { // a node says so again when it becomes read-only
		l.tellGlobal(c, errJeopardy, func(*held) trigger { return endangered })
	}
	if _, all := l.locals(); all && len(l.opens) == 0 {
		return // local sessions depend on no leader, and would end elsewhere
	}
	l.leave(c, errJeopardy)
}

// tellGlobal tells every global session that c serves what happened to it: local ones depend on no leader.
func (l *loop) tellGlobal(c *conn, err error, what func(*held) trigger) {
	for _, h := range l.sessions {
		if h.on == c && !h.token.Local {
			l.emit(h, what(h), err)
		}
	}
}
