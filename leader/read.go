package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/session"
)

// readIndex answers a read with the index to wait for so that the read is linearizable, and with the remaining time of
// sessions (R4 leadership needs a good round).
func (q *requests) readIndex(ctx context.Context, r *session.ReadRequest) (session.Reply, error) {
	if len(r.Remaining) > session.MaxPage {
		return session.Reply{}, &session.FieldError{
			Field: "remaining", Limit: fmt.Sprintf("at most %d", session.MaxPage),
		}
	}
	index := q.view.CommitIndex()
	if err := q.heartbeats.await(ctx); err != nil {
		return session.Reply{}, readError(err)
	}
	reply := session.Reply{Term: q.term.number, Index: index}
	if len(r.Remaining) > 0 {
		reply.Remaining = q.remaining(r.Remaining)
	}
	return reply, nil
}

// readError turns the end of the stream into a domain error. A read has no effect, so the outcome is always known.
func readError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return session.ErrNoLeader
	}
	return err
}

// remaining returns the time that each session has left if it stays silent; negative for a session that does not exist.
func (q *requests) remaining(ids []session.ID) []time.Duration {
	now, states := q.heartbeats.owners()
	frozen := q.heartbeats.frozen()
	all := make([]time.Duration, len(ids))
	for i, id := range ids {
		all[i] = -time.Millisecond
		if due, ok := q.due(id, now, states); ok {
			all[i] = max(due-now, q.cfg.Tree.kept(id, now)-now, 0) + frozen
		}
	}
	return all
}

// due returns the time when a session comes due. A session that exists but is not in the queue will be filed soon: as
// of the term's start (E1 full timeout after a change of leader), or by an entry that this tracker has not yet
// processed (S2 opens and moves are touches).
func (q *requests) due(id session.ID, now time.Duration, states *ownerStates) (time.Duration, bool) {
	s := q.registry.shard(id)
	s.mu.Lock()
	if it := s.queue.Find(id); it != nil {
		defer s.mu.Unlock()
		return states.due(it), true
	}
	filling := s.filling()
	s.mu.Unlock()
	one, ok := q.view.Session(id)
	if filling {
		return states[one.Owner].due(0, one.Timeout), ok
	}
	return now + one.Timeout, ok
}
