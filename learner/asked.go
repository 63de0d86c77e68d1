package learner

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"holdfast/session"
)

// asked is an open, a resume or a close of a global session on its way to the leader and back. No goroutine waits for
// it: each step tells the next one. The client hears the outcome of the last step, once.
//
//	Start --> [seen: park] --> upstream.submit --> replied --> applyQueue (M3) --> outcome --> done
type asked struct {
	conn    *connection
	request session.Request
	// received is when the request came.
	received time.Duration
	done     func(session.Grant, error)

	// reply and refusal are what the leader answered. Only then the request waits for the reply's index.
	answered bool
	reply    session.Reply
	refusal  error
}

// Start begins an open, a resume or a close of a global session. See session.Connection.
func (c *connection) Start(r session.Request, done func(session.Grant, error)) bool {
	var seen uint64
	switch {
	case r.Open != nil && !r.Open.Local:
	case r.Resume != nil && c.server.local.unknown(r.Resume.Token.ID):
		seen = r.Resume.Seen
	case r.Close != nil && !r.Close.Local && c.server.tree.Settled(r.Close.ID, r.Close.Attachment):
	default:
		return false
	}
	a := &asked{conn: c, request: r, done: done}
	if c.server.view.AppliedIndex() >= seen {
		a.ask()
		return true
	}
	switch err := c.server.registry.authentic(a.token()); {
	case errors.Is(err, session.ErrBadCredential): // only who holds a session has seen an index
		done(session.Grant{}, err)
	case c.server.standing.readOnly(): // the leader would be asked later, and refused at once (N2)
		done(session.Grant{}, session.ErrReadOnly)
	default:
		c.park(seen, a) // N4
	}
	return true
}

// ask sends the request to the leader.
func (a *asked) ask() {
	a.received = a.conn.server.clock.look()
	a.conn.server.upstream.submit(a.request, a.replied)
}

// replied takes the leader's reply. What it tells is shown once this node has applied it too (M3, N4).
func (a *asked) replied(reply session.Reply, refusal error) {
	a.answered, a.reply, a.refusal = true, reply, refusal
	if refusal != nil && !ofTheLog(refusal) {
		a.done(session.Grant{}, refusal)
		return
	}
	a.conn.server.wait.queue.after(reply.Index, a)
}

// applied goes on with a request whose wait is over.
func (a *asked) applied(behind error) {
	if behind == nil && !a.answered { // this node has applied what the client has seen
		if err := guarded(a.ask); err != nil {
			a.done(session.Grant{}, err)
		}
		return
	}
	var grant session.Grant
	err := behind
	if panicked := guarded(func() {
		if behind == nil {
			grant, err = a.outcome()
		}
	}); panicked != nil {
		err = panicked
	}
	if behind != nil {
		a.unwanted()
	}
	a.done(grant, err)
}

// unwanted releases a session that has moved here for a client that is not told.
func (a *asked) unwanted() {
	if a.answered && a.refusal == nil && a.request.Resume != nil {
		a.conn.server.unwanted(a.reply, nil)
	}
}

// outcome is what the client is told: this node has applied the reply's index.
func (a *asked) outcome() (session.Grant, error) {
	switch {
	case a.refusal != nil:
		return session.Grant{}, a.conn.server.registry.explained(a.refusal, a.token())
	case a.request.Close != nil:
		return session.Grant{}, nil
	case a.conn.over.Load():
		// The client repeats the request through another connection, which serves the session then.
		a.unwanted()
		return session.Grant{}, fmt.Errorf("%w: the connection ended", session.ErrOutcomeUnknown)
	default:
		return a.conn.serve(a.reply, a.received)
	}
}

// token is the one that the request names, the zero token for an open.
func (a *asked) token() session.Token {
	switch {
	case a.request.Resume != nil:
		return a.request.Resume.Token
	case a.request.Close != nil:
		return *a.request.Close
	default:
		return session.Token{}
	}
}

// guarded calls step, and returns a panic as a [session.PanicError]: the goroutine serves all clients.
func guarded(step func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &session.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	step()
	return nil
}
