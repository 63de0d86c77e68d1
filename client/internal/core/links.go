package core

import (
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/session"
)

// links handles connections that come up, serve, and fail.
type links struct{ requests }

// connected makes the first connection that comes up the candidate, and closes those that race it. The client resumes
// every session on the candidate, or one as a probe (see probe), and the answers decide whether the client keeps it.
// Sessions are never resumed on two connections at a time on purpose: each resume is an entry of the log, and takes the
// session from the other connection.
func (k *links) connected(c *Conn) {
	i := slices.Index(k.racing, c)
	if i < 0 {
		return
	}
	c.up = true
	k.router.Reached(c.Server)
	k.racing = slices.Delete(k.racing, i, i+1)
	k.dropRacing()
	k.next = c
	if c.deadline = c.dialled.Add(k.bound(tryPart, Patience)); k.router.Rounds > 0 {
		c.deadline = k.now.Add(k.bound(latePart, Patience))
	}
	k.tryNext(c)
}

// served notes that the node of c did something for this client that needs a leader. A candidate becomes the present
// connection. The present connection is left no more, unless its node's fault goes on.
func (k *links) served(c *Conn) {
	k.router.Fresh, k.router.Refused = true, false
	c.window.Served()
	k.trouble = route.Failure{}
	if c == k.next {
		k.adopt()
		return
	}
	if c.failing == nil || c.jeopardy || k.readOnly(c) || c.dismissed() {
		return
	}
	c.failing = nil
	if k.next == nil || k.next.window.PutsOff() {
		k.stay() // the present node has recovered before another one has served
	}
}

// adopt makes the candidate the present connection, and drops the former one.
func (k *links) adopt() {
	former := k.cur
	k.cur, k.next, k.adopted = k.next, nil, k.now
	k.cur.deadline, k.cur.probe = time.Time{}, probe{}
	k.clusterIs(&k.cur.state)
	k.router.Moving = false
	k.router.Last, k.router.NotBefore = k.cur.Server, nil
	k.router.Avoid(k.cur.Server, time.Time{})
	k.effects.Adopted = k.cur.Server
	k.learnSoon()
	k.effects.log(hclog.Info, "connected", "address", k.cur.Address)
	if former != nil {
		k.drop(former, nil)
	}
	k.rejoin()
	k.queueOpens()
}

// lost handles the end of a connection.
func (k *links) lost(c *Conn, err error) {
	switch {
	case c == k.next:
		k.failedNext(atNode(c, err))
		return
	case c != k.cur:
		k.failedRacing(c, atNode(c, err))
		return
	}
	k.effects.log(hclog.Info, "connection lost", "address", c.Address, "error", err)
	k.trouble.Met(atNode(c, err))
	k.drop(c, err)
	k.rejoin()
}

// atNode returns what the end of a connection says of its node: that it denies the client, or that it was not reached.
func atNode(c *Conn, err error) error {
	if route.Denied(err) {
		return err
	}
	return route.Unreachable(c.Address, err)
}

// failedNext gives up the candidate. The client stays where it is if it has no reason to leave, and else goes on with
// the round.
func (k *links) failedNext(err error) {
	k.effects.log(hclog.Debug, "node does not serve", "address", k.next.Address, "error", err)
	k.drop(k.next, err)
	k.router.Refused = k.router.Refused || errors.Is(err, session.ErrReadOnly)
	k.lag.Note(err)
	if k.recovered() {
		k.trouble.Met(err)
		k.stay()
	} else {
		k.attemptFailed(err)
	}
	k.rejoin()
	if k.takesWrites() {
		k.queueOpens() // an open may have been on its way there
	}
}

// checkConns gives up connections that take too long, and begins a move when there is no connection.
func (k *links) checkConns() {
	for _, c := range slices.Clone(k.racing) {
		if !k.now.Before(c.deadline) {
			k.failedRacing(c, route.Unreachable(c.Address, route.ErrSlow))
		}
	}
	if c := k.next; c != nil {
		switch {
		case c.up && len(k.sessions) == 0 && k.weigh(c):
		case !k.now.Before(c.deadline):
			k.failedNext(route.Unreachable(c.Address, route.ErrSlow))
		}
	}
	if c := k.cur; c == nil {
		k.beginMove()
	} else {
		k.checkSilence(c)
	}
}

// checkSilence asks the node of c for a sign of life, and leaves it when it gives none.
func (k *links) checkSilence(c *Conn) {
	if at := c.asksAt(); !at.IsZero() && !k.now.Before(at) {
		k.askAlive(c)
	}
	if at := c.stallsAt(); !at.IsZero() && !k.now.Before(at) {
		k.leave(c, ErrStalled)
	}
}

// silent leaves the node that serves h and does not renew its promise. A node that hears of no leader can renew local
// sessions only. When it does not even do that, the client drops the connection.
func (k *links) silent(h *Session) {
	if h.token.Local && h.on.leaderless() {
		k.lost(h.on, errSilent)
		return
	}
	k.leave(h.on, errSilent)
}

// checkSessions ends promises that have run out, and leaves a node that does not renew them. It walks the sessions only
// when one may be due.
func (k *links) checkSessions() {
	if k.dueAt.IsZero() || k.now.Before(k.dueAt) {
		return
	}
	k.dueAt = time.Time{}
	for _, h := range k.sessions {
		if !h.until.IsZero() && !k.now.Before(h.until) {
			k.lapse(h)
		}
		if h.on != nil && len(h.closing) == 0 {
			if !k.now.Before(h.renewBy) {
				k.silent(h)
				h.renewBy = k.now.Add(h.timeout / lostPart)
			}
			k.dueAt = route.Earliest(k.dueAt, h.renewBy)
		}
		k.dueAt = route.Earliest(k.dueAt, h.until)
	}
}

// servedFor is served, for an answer about the session of t. A node serves a local session without a leader, so such an
// answer says nothing of the other sessions. It counts only when they are all local, or there is no better connection.
func (k *links) servedFor(c *Conn, t session.Token) {
	if !t.Local || k.needsNoLeader() || k.cur == nil && k.allLocal() {
		k.served(c)
	}
}

// sentHome reports whether the refusal of a resume means that the client should look for the node of a local session.
// It should when no promise holds elsewhere and it has nothing else to lose: no open waits, and no global session is
// held. The present node, which has served the client, is not left for that.
func (k *links) sentHome(c *Conn, h *Session, err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	if !ok || expired.LocalTo == 0 || !h.token.Local || len(k.opens) > 0 {
		return false
	}
	h.upgradeSent = false // no upgrade has taken effect by now (L6)
	return h.joining != nil && len(k.sessions) == 1 || c != k.cur && k.homing() == route.Only
}

// putOff decides what happens to a candidate that has refused a resume for now. While the candidate may still do
// something, nothing happens. When it has put off everything, the client stays if every session can wait (see tooLate).
// Otherwise it tries another node at once, and this one again when the first resume would have come back.
func (k *links) putOff(c *Conn, err error) {
	if c != k.next || route.Hint(err) == 0 || !c.window.PutsOff() {
		return // no candidate, no moment named, or requests that may still be served
	}
	first, spare := c.window.DueAt(), k.bound(tryPart, Patience)
	if c.jeopardy && !first.Before(c.deadline) ||
		slices.ContainsFunc(c.window.Later(), func(r *window.Request) bool { return k.tooLate(r, spare) }) {
		k.router.Postpone(k.now, c.Target, first)
		k.failedNext(err)
		return
	}
	if !c.jeopardy { // a node without a leader gets no more time
		c.deadline = first.Add(spare)
	}
}
