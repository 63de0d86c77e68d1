package leader

import (
	"context"
	"errors"

	"holdfast/session"
	"holdfast/tree"
)

// maxCloses is how many closes that clients ask for share a command. It is well below [session.MaxCloseBatch], so that
// opens get their share between two commands (E3).
const maxCloses = 256

// closes gathers the closes that the requests of one message ask for, so that they share commands.
type closes struct {
	requests *requests
	batch    []session.Closing
	wanted   []wantedClose
	// weight is that of the batch (U2).
	weight int
}

// wantedClose is a close that a client asks for.
type wantedClose struct {
	token session.Token
	done  answered
}

// add adds a session that is marked as closing.
func (c *closes) add(one session.Closing, token session.Token, done answered) {
	weight := c.requests.closer.weightOf(one.ID)
	if c.weight+weight > tree.MaxWeight {
		c.submit()
	}
	c.batch, c.wanted = append(c.batch, one), append(c.wanted, wantedClose{token, done})
	if c.weight += weight; len(c.batch) == maxCloses {
		c.submit()
	}
}

// submit proposes what was added. The proposal outlives the stream, because only its outcome says whether the marks are
// taken back (E4).
func (c *closes) submit() {
	q, batch, wanted, weight := c.requests, c.batch, c.wanted, c.weight
	if len(batch) == 0 {
		return
	}
	c.batch, c.wanted, c.weight = nil, nil, 0
	q.closer.submit(ending{cause: session.CauseClosed}, batch, weight, func(result session.Result, err error) {
		if err == nil {
			err = q.decided(&result)
		}
		for i := range wanted {
			w := &wanted[i]
			switch {
			case err != nil:
				w.done(session.Reply{}, err)
			case i >= len(result.Closed) || !result.Closed[i]:
				w.done(session.Reply{}, q.leftAlone(&w.token))
			default:
				q.stats.closed.Add(1)
				w.done(session.Reply{Term: result.Term, Index: result.Index}, nil)
			}
		}
	})
}

// close ends a session at its client's wish: with the other closes of the message, or by itself if it had to wait for a
// good round.
func (q *requests) close(ctx context.Context, token *session.Token, ends *closes, done answered) {
	one, shown, err := q.authentic(token)
	switch {
	case err != nil:
		done(session.Reply{}, err)
	case shown:
		q.mark(token, &one, ends, done)
	default:
		q.wait(done, func() {
			one, err := q.madeGlobal(ctx, token.ID)
			if err != nil {
				done(session.Reply{}, err)
				return
			}
			alone := closes{requests: q}
			q.mark(token, &one, &alone, done)
			alone.submit()
		})
	}
}

// mark marks a session as closing and adds it to ends, if the token names its present attachment.
func (q *requests) mark(token *session.Token, one *session.Session, ends *closes, done answered) {
	if token.Local {
		// The session has become global since the token was made (L5).
		done(session.Reply{}, session.MovedTo(*one))
		return
	}
	c, err := q.registry.mark(token, one)
	switch {
	case errors.Is(err, session.ErrExpired):
		err = q.notFiled(token.ID)
	case errors.Is(err, session.ErrMoved):
		err = q.leftAlone(token)
	}
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	ends.add(c, *token, done)
}

// notFiled returns why a session that the state showed is not in the queue. Either it has ended since, or the state
// shows the entry that opened it and this tracker is about to be told of the entry. A node that made a session global
// tells its client as soon as it serves the session, so a close may arrive before the tracker is told (L8).
func (q *requests) notFiled(id session.ID) error {
	if _, ok := q.view.Session(id); ok {
		return session.ErrLagging
	}
	return &session.ExpiredError{ID: id}
}

// leftAlone returns why the session of a token was not ended: it had ended or was moved before.
func (q *requests) leftAlone(token *session.Token) error {
	now, ok := q.view.Session(token.ID)
	if !ok {
		return &session.ExpiredError{ID: token.ID}
	}
	return session.MovedTo(now)
}
