package leader

import (
	"context"
	"errors"

	"holdfast/session"
)

// close ends a session at its client's wish. The proposal outlives the stream, because only its outcome says whether
// the mark is taken back (E4).
func (q *requests) close(ctx context.Context, token *session.Token) (session.Reply, error) {
	one, err := q.authentic(ctx, token)
	if err != nil {
		return session.Reply{}, err
	}
	if token.Local {
		return session.Reply{}, session.MovedTo(one) // the session has become global since the token was made (L5)
	}
	c, err := q.registry.mark(token, &one)
	switch {
	case errors.Is(err, session.ErrExpired):
		err = q.notFiled(token.ID)
	case errors.Is(err, session.ErrMoved):
		err = q.leftAlone(token)
	}
	if err != nil {
		return session.Reply{}, err
	}
	lasting, cancel := q.term.context(ctx)
	defer cancel()
	result, err := q.closer.close(lasting, session.CauseClosed, []session.Closing{c})
	if err == nil {
		err = q.decided(&result)
	}
	if err == nil && (len(result.Closed) != 1 || !result.Closed[0]) {
		err = q.leftAlone(token)
	}
	if err != nil {
		return session.Reply{}, err
	}
	q.stats.closed.Add(1)
	return session.Reply{Term: result.Term, Index: result.Index}, nil
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
