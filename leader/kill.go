package leader

import (
	"context"
	"errors"
	"sync"

	"holdfast/session"
	"holdfast/tree"
)

// kill ends sessions for an operator, regardless of their owners. An operator has no token, so a kill, unlike a close,
// begins with a good round: only then is a session that this node's state does not show known to have ended (M5
// lagging, not expired). Like a close, a kill marks each session, so that no move and no expiry of this leader comes in
// between (M6 closing sessions stay).
func (q *requests) kill(ctx context.Context, r *session.KillRequest, done answered) {
	q.wait(done, func() {
		if err := q.heartbeats.await(ctx); err != nil {
			done(session.Reply{}, readError(err))
			return
		}
		k := &kills{requests: q, request: r, killed: make([]session.MoveResult, len(r.IDs)), done: done}
		k.submit()
	})
}

// kills is an operator's request to end sessions that waits for the log.
type kills struct {
	requests *requests
	request  *session.KillRequest
	done     answered

	mu sync.Mutex
	// killed has the outcome for each session, left the number of commands without a result. term and index are the
	// newest entry's; 0 without one. Guarded by mu.
	killed      []session.MoveResult
	left        int
	term, index uint64
}

// killBatch is the part of a request that one command ends: the sessions, and their positions in the request.
type killBatch struct {
	batch  []session.Closing
	at     []int
	weight int
}

// submit proposes to end the sessions, in commands whose weight fits into an entry (U2 weight). The proposals outlive
// the stream, because only their outcome decides whether the marks are removed (E4 closing mark).
func (k *kills) submit() {
	q := k.requests
	batches := []killBatch{{}}
	for i, id := range k.request.IDs {
		one, err := q.markForKill(id)
		if err != nil {
			k.killed[i].Err = err
			continue
		}
		weight := q.closer.weightOf(id)
		last := &batches[len(batches)-1]
		if len(last.batch) > 0 && last.weight+weight > tree.MaxWeight {
			batches = append(batches, killBatch{})
			last = &batches[len(batches)-1]
		}
		last.batch, last.at, last.weight = append(last.batch, one), append(last.at, i), last.weight+weight
	}
	if len(batches[0].batch) == 0 {
		k.finish()
		return
	}
	k.left = len(batches)
	for _, b := range batches {
		cause := ending{cause: session.CauseKilled, by: k.request.By, why: k.request.Why}
		q.closer.submit(cause, b.batch, b.weight, func(result session.Result, err error) { k.recordResult(&b, result, err) })
	}
}

// markForKill marks a session as closing.
func (q *requests) markForKill(id session.ID) (session.Closing, error) {
	one, ok := q.view.Session(id)
	if !ok {
		return session.Closing{}, &session.ExpiredError{ID: id}
	}
	c, err := q.registry.mark(&session.Token{ID: id, Attachment: one.Attachment}, &one)
	switch {
	case errors.Is(err, session.ErrExpired):
		err = q.notFiled(id)
	case errors.Is(err, session.ErrMoved):
		err = session.ErrLagging // the session has moved since the first read
	}
	return c, err
}

// recordResult processes the result of a command.
func (k *kills) recordResult(b *killBatch, result session.Result, err error) {
	if err == nil {
		err = k.requests.decided(&result)
	}
	k.mu.Lock()
	for n, i := range b.at {
		one := &k.killed[i]
		switch {
		case err != nil:
			one.Err = err
		case n >= len(result.Closed) || !result.Closed[n]:
			one.Err = k.requests.leftAlone(&session.Token{ID: b.batch[n].ID})
		default:
			one.Attachment = b.batch[n].Attachment
			k.requests.stats.killed.Add(1)
		}
	}
	if result.Index > k.index {
		k.term, k.index = result.Term, result.Index
	}
	k.left--
	last := k.left == 0
	k.mu.Unlock()
	if last {
		k.finish()
	}
}

// finish replies. The learner answers its client after it has applied the ends, and the ends and moves that refusals
// report (N4 seen index).
func (k *kills) finish() {
	reply := session.Reply{Term: k.term, Index: k.index, Moved: k.killed}
	for i := range k.killed {
		if err := k.killed[i].Err; errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrMoved) {
			reply.Index = max(reply.Index, k.requests.view.CommitIndex())
			break
		}
	}
	k.done(reply, nil)
}
