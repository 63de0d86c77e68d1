package leader

import (
	"context"
	"errors"

	"holdfast/session"
	"holdfast/tree"
)

// maxCloses is the largest number of closes by clients in a command. It is well below [session.MaxCloseBatch], so that
// opens get their share between two commands (W9 fair turns).
const maxCloses = 256

// closes gathers the closes that the requests of one message need, so that they share commands.
type closes struct {
	requests *requests
	batch    []session.Closing
	wanted   []wantedClose
	// weight is the weight of the batch (U2 weight).
	weight int
}

// wantedClose is a close requested by a client.
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

// submit proposes the batch. The proposal outlives the stream, because only its outcome decides whether the marks are
// removed (E4 closing mark).
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

// close ends a session at its client's request: together with the other closes of the message, or separately if the
// request must wait for a good round.
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
		// The session has become global since the node made the token (L5 local attachments).
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

// notFiled returns the error for a session that the state has shown and the queue does not have. Either the session has
// ended since, or this tracker has not yet processed the entry that opened it. The node of an upgraded session informs
// the client as soon as the node serves the session, so a close may arrive before the tracker has processed the upgrade
// (L8 one upgrade at a time).
func (q *requests) notFiled(id session.ID) error {
	if _, ok := q.view.Session(id); ok {
		return session.ErrLagging
	}
	return &session.ExpiredError{ID: id}
}

// leftAlone returns the error for a token's session that a close did not end: the session had ended or moved before.
func (q *requests) leftAlone(token *session.Token) error {
	now, ok := q.view.Session(token.ID)
	if !ok {
		return &session.ExpiredError{ID: token.ID}
	}
	return session.MovedTo(now)
}
