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

// links handles connections: those that come up, serve, and fail.
type links struct{ requests }

// connected goes on with the first connection that has come up, and closes those that race it: every session is resumed
// on it, or one to begin with (see probe), and what it answers decides whether it is kept. Without sessions it is kept
// at once. Sessions are never resumed on two connections at a time on purpose: each resume is an entry of the log, and
// takes the session from the other one.
func (k *links) connected(c *Conn) {
	i := slices.Index(k.racing, c)
	if i < 0 {
		return
	}
	c.up = true
	k.racing = slices.Delete(k.racing, i, i+1)
	k.dropRacing()
	k.next = c
	if c.deadline = c.dialled.Add(k.bound(tryPart, Patience)); k.router.Rounds > 0 {
		c.deadline = k.now.Add(k.bound(latePart, Patience))
	}
	k.tryNext(c)
}

// served notes that c has done something for this client that only a node in touch with a leader can do.
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
		k.stay() // it has recovered before another node has done anything
	}
}

// adopt makes the connection that was tried the one that serves, and drops the former one.
func (k *links) adopt() {
	former := k.cur
	k.cur, k.next = k.next, nil
	k.cur.deadline, k.cur.probe = time.Time{}, probe{}
	k.router.Moving = false
	k.router.Last, k.router.NotBefore = k.cur.Server, nil
	k.effects.Adopted = k.cur.Server
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
		k.failedNext(route.Unreachable(c.Address, err))
		return
	case c != k.cur:
		k.failedRacing(c, route.Unreachable(c.Address, err))
		return
	}
	k.effects.log(hclog.Info, "connection lost", "address", c.Address, "error", err)
	k.trouble.Met(route.Unreachable(c.Address, err))
	k.drop(c, err)
	k.rejoin()
}

// failedNext gives up the connection that was tried.
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
		k.queueOpens() // one of them may have been on its way there
	}
}

// checkConns gives up connections that take too long, and has one made when there is none.
func (k *links) checkConns() {
	for _, c := range slices.Clone(k.racing) {
		if !k.now.Before(c.deadline) {
			k.failedRacing(c, route.Unreachable(c.Address, ErrSlow))
		}
	}
	if c := k.next; c != nil {
		switch {
		case c.up && len(k.sessions) == 0 && !k.readOnly(k.cur):
			k.adopt()
		case !k.now.Before(c.deadline):
			k.failedNext(route.Unreachable(c.Address, ErrSlow))
		}
	}
	if c := k.cur; c == nil {
		k.beginMove()
	} else if at := c.stallsAt(); !at.IsZero() && !k.now.Before(at) {
		k.leave(c, ErrStalled)
	}
}

// silent leaves the node that serves h and does not renew its promise. One that hears of no leader is expected to renew
// local ones only, and left for good when it does not.
func (k *links) silent(h *Session) {
	if h.token.Local && h.on.leaderless() {
		k.lost(h.on, errSilent)
		return
	}
	k.leave(h.on, errSilent)
}

// checkSessions ends promises that have run out and leaves a node that does not renew them. It walks the sessions only
// when something can be due.
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

// servedFor is served for an answer about a session. What a node does for a local one says nothing of a leader, and so
// decides nothing for the others, nor for opens; but that it is better than none.
func (k *links) servedFor(c *Conn, t session.Token) {
	if !t.Local || k.needsNoLeader() || k.cur == nil && k.allLocal() {
		k.served(c)
	}
}

// sentHome takes a refusal of a resume, and reports whether it says that the session may be known at its own node only
// and is to be looked for there: by a client that has nothing else to lose by going on, and until the promise has run
// out. A node that has served something is not left for that: it is the one that a round would come back to.
func (k *links) sentHome(c *Conn, h *Session, err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	if !ok || expired.LocalTo == 0 || !h.token.Local || len(k.opens) > 0 {
		return false
	}
	h.upgradeSent = false // no upgrade has taken effect by now (L6)
	return h.joining != nil && len(k.sessions) == 1 || c != k.cur && k.homing() == route.Only
}

// putOff decides what becomes of a connection that is tried and has refused a resume with err, which names a moment.
// When it has put off everything it was asked for, the client stays if each session may: what is promised it lasts
// until the moment the node named and as much longer as an attempt at another node may take, or the wait itself is no
// longer than such an attempt; and it has not been put off too often. Otherwise another node is tried at once, and this
// one not before the moment at which the first resume would have come back. A client that is served by the node already
// stays in any case: moving all its sessions for the sake of some would make the crowd larger.
func (k *links) putOff(c *Conn, err error) {
	if c != k.next || route.Hint(err) == 0 || !c.window.PutsOff() {
		return // it is not tried, names none, or may yet do what it has not answered
	}
	first, spare := c.window.DueAt(), k.bound(tryPart, Patience)
	if c.jeopardy && !first.Before(c.deadline) ||
		slices.ContainsFunc(c.window.Later(), func(r *window.Request) bool { return k.tooLate(r, spare) }) {
		k.router.Postpone(k.now, c.Target, first)
		k.failedNext(err)
		return
	}
	if !c.jeopardy { // one that hears of no leader is given no more time than it has
		c.deadline = first.Add(spare)
	}
}
