package leader

import (
	"context"
	"time"

	"holdfast/session"
)

// explain says what keeps a session alive (E1 full timeout after a change of leader). It waits for a good round as
// every read does (R4 leadership needs a good round).
func (q *requests) explain(ctx context.Context, id session.ID) (session.Reply, error) {
	index := q.view.CommitIndex()
	if err := q.heartbeats.await(ctx); err != nil {
		return session.Reply{}, readError(err)
	}
	reply := session.Reply{Term: q.term.number, Index: index}
	one, ok := q.view.Session(id)
	if !ok {
		return reply, &session.ExpiredError{ID: id}
	}
	v := q.vigil(&one)
	reply.Vigil = &v
	return reply, nil
}

func (q *requests) vigil(one *session.Session) session.Vigil {
	now, states := q.heartbeats.owners()
	w := &states[one.Owner]
	v := session.Vigil{
		Leader: q.cfg.Node, Term: q.term.number, Led: now, Credited: q.heartbeats.credit(), LastTouchAge: -time.Millisecond,
		VouchedAge: max(now-w.confirmed, 0), Silent: w.silence(now),
	}
	deadline := time.Duration(0)
	s := q.registry.shard(one.ID)
	s.mu.Lock()
	it := s.queue.Find(one.ID)
	if it != nil {
		deadline, v.Closing = it.Deadline(), it.Marked()
	}
	filling := s.filling()
	s.mu.Unlock()
	if it == nil && !filling { // this tracker has not yet processed the entry that opened the session
		deadline = now + extension(one.Timeout)
	}
	due := w.due(deadline, one.Timeout)
	v.Credit = due - w.plain(deadline, one.Timeout)
	v.Frozen = q.heartbeats.frozen()
	if kept := q.cfg.Tree.kept(one.ID, now); kept > now {
		v.Kept, due = kept-now+v.Frozen, max(due, kept)
	}
	v.Remaining = max(due-now, 0) + v.Frozen
	if deadline != 0 {
		v.LastTouchAge = max(now-(deadline-extension(one.Timeout)), 0)
	}
	return v
}

// story fills in a certificate's facts about the owner, for a session with the given due time that expires at now.
func (w *ownerState) story(c *session.Closing, it *item, due, now time.Duration) {
	c.Credit = due - w.plain(it.Deadline(), it.Value.timeout())
	c.Silent = w.silence(now)
}

// silence returns the time since a lost owner's last answer, at least 1 ms; 0 for an owner that is not lost.
func (w *ownerState) silence(now time.Duration) time.Duration {
	if !w.lost {
		return 0
	}
	return max(now-w.silent, time.Millisecond)
}
