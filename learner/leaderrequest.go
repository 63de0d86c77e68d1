package learner

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"holdfast/session"
)

// leaderRequest is an open, a resume or a close of a global session on its way to the leader and back. No goroutine
// waits for it: each step calls the next one. The client gets the outcome of the last step, once.
//
//	Start --> [seen: park] --> upstream.submit --> replied --> applyQueue (M3) --> outcome --> done
type leaderRequest struct {
	conn    *connection
	request session.Request
	// received is the moment at which the request arrived.
	received time.Duration
	done     func(session.Grant, error)

	// reply and refusal are the leader's answer, once answered is set. The request then waits for the reply's index.
	answered bool
	reply    session.Reply
	refusal  error
}

// Start begins an open, a resume or a close of a global session. See session.Connection.
func (c *connection) Start(r session.Request, done func(session.Grant, error)) bool {
	var seen uint64
	switch {
	case r.Open != nil && !r.Open.Local:
	case r.Resume != nil && c.server.local.Unknown(r.Resume.Token.ID):
		seen = r.Resume.Seen
	case r.Close != nil && !r.Close.Local && c.server.tree.Idle(r.Close.ID, r.Close.Attachment):
	default:
		return false
	}
	a := &leaderRequest{conn: c, request: r, done: done}
	if c.server.view.AppliedIndex() >= seen {
		a.ask()
		return true
	}
	switch err := c.server.registry.authentic(a.token()); {
	case errors.Is(err, session.ErrBadCredential): // only the holder of a session has seen an index
		done(session.Grant{}, err)
	case c.server.modeFacts.readOnly(): // before the wait, which would end in the same refusal (N2 read-only refusals)
		done(session.Grant{}, session.ErrReadOnly)
	default:
		c.park(seen, a) // N4
	}
	return true
}

// ask sends the request to the leader.
func (a *leaderRequest) ask() {
	a.received = a.conn.server.clock.checkedNow()
	a.conn.server.upstream.submit(a.request, a.replied)
}

// replied receives the leader's reply. Its effect is shown once this node has applied the entry too (M3 served in the
// leader's term, N4 seen index).
func (a *leaderRequest) replied(reply session.Reply, refusal error) {
	a.answered, a.reply, a.refusal = true, reply, refusal
	if refusal != nil && !ofTheLog(refusal) {
		a.done(session.Grant{}, refusal)
		return
	}
	a.conn.server.wait.queue.after(reply.Index, a)
}

// applied continues a request whose wait is over.
func (a *leaderRequest) applied(behind error) {
	if behind == nil && !a.answered { // this node has applied the index that the client has seen
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
		a.releaseUnwanted()
	}
	a.done(grant, err)
}

// releaseUnwanted releases a session that has moved here for a client that will not learn of the move.
func (a *leaderRequest) releaseUnwanted() {
	if a.answered && a.refusal == nil && a.request.Resume != nil {
		a.conn.server.releaseUnwanted(a.reply, nil)
	}
}

// outcome returns the client's answer. This node has applied the reply's index.
func (a *leaderRequest) outcome() (session.Grant, error) {
	switch {
	case a.refusal != nil:
		return session.Grant{}, a.conn.server.registry.explained(a.refusal, a.token())
	case a.request.Close != nil:
		return session.Grant{}, nil
	case a.conn.over.Load():
		// The client repeats the request over another connection, which then serves the session.
		a.releaseUnwanted()
		return session.Grant{}, fmt.Errorf("%w: the connection ended", session.ErrOutcomeUnknown)
	default:
		return a.conn.serve(a.reply, a.received)
	}
}

// token is the request's token, zero for an open.
func (a *leaderRequest) token() session.Token {
	switch {
	case a.request.Resume != nil:
		return a.request.Resume.Token
	case a.request.Close != nil:
		return *a.request.Close
	default:
		return session.Token{}
	}
}

// guarded calls step, and returns a panic as a [session.PanicError], because the goroutine serves all clients.
func guarded(step func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &session.PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	step()
	return nil
}
