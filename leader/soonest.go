package leader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
)

// soonest finds the sessions that expire first if all stay silent. It is a read like another (R4). It looks at every
// session, in the order of memory and a few at a time, so that no touch waits for it. Until a new term has filed all
// sessions there is no answer.
func (q *requests) soonest(ctx context.Context, r *session.SoonestRequest) (session.Reply, error) {
	if r.Size < 1 || r.Size > session.MaxPage {
		return session.Reply{}, &session.FieldError{Field: "size", Limit: fmt.Sprintf("1 to %d", session.MaxPage)}
	}
	index := q.view.CommitIndex()
	if err := q.heartbeats.await(ctx); err != nil {
		return session.Reply{}, readError(err)
	}
	look := q.look(r)
	for i := range q.registry.shards {
		if !q.lookInto(&q.registry.shards[i], &look) {
			return session.Reply{}, session.ErrNoLeader
		}
		if ctx.Err() != nil {
			return session.Reply{}, readError(ctx.Err())
		}
	}
	look.cut()
	reply := session.Reply{Term: q.term.number, Index: index}
	for _, one := range look.first {
		reply.Soonest, reply.Remaining = append(reply.Soonest, one.id), append(reply.Remaining, one.remaining)
	}
	return reply, nil
}

// soonestLook is a search for the sessions with the least time left.
type soonestLook struct {
	request *session.SoonestRequest
	now     time.Duration
	states  *ownerStates
	frozen  time.Duration
	// some are sessions of a part that may be among the first.
	some []left
	// first has the sessions with the least time left of all that were looked at, and others. Once it has had enough, no
	// session with enough time or more is among the first.
	first  []left
	enough time.Duration
}

// left is the time that a session has left.
type left struct {
	id        session.ID
	remaining time.Duration
}

func (q *requests) look(r *session.SoonestRequest) soonestLook {
	now, states := q.heartbeats.owners()
	return soonestLook{request: r, now: now, states: states, frozen: q.heartbeats.frozen()}
}

// lookInto looks at the sessions of a shard; false if the shard may lack sessions.
func (q *requests) lookInto(s *shard, look *soonestLook) bool {
	for part, more := 0, true; more; part++ {
		s.mu.Lock()
		filling := s.filling()
		more = look.sift(s.queue, part)
		s.mu.Unlock()
		if filling {
			return false
		}
		q.consider(look)
	}
	return true
}

// sift gathers the sessions of a part that may be among the first, and reports whether a higher part has others. Called
// with the shard's lock held.
func (look *soonestLook) sift(from *queue, part int) (more bool) {
	look.some = look.some[:0]
	owner := look.request.Filter.Owner
	return from.Some(part, func(it *item) {
		remaining := max(look.states.due(it)-look.now, 0) + look.frozen
		if (owner == 0 || it.Value.owner == owner) && (look.enough == 0 || remaining < look.enough) {
			look.some = append(look.some, left{it.ID(), remaining})
		}
	})
}

// consider takes those that match.
func (q *requests) consider(look *soonestLook) {
	for _, one := range look.some {
		if kept := q.cfg.Tree.kept(one.id, look.now); kept > look.now {
			one.remaining = max(one.remaining, kept-look.now+look.frozen)
		}
		if look.enough != 0 && one.remaining >= look.enough || !look.request.Filter.MatchRemaining(one.remaining) {
			continue
		}
		if found, ok := q.view.Session(one.id); !ok || !look.request.Filter.Match(&found) {
			continue
		}
		if look.first = append(look.first, one); len(look.first) == 2*look.request.Size {
			look.cut()
			look.enough = look.first[len(look.first)-1].remaining
		}
	}
}

// cut leaves as many as are wanted, in their order.
func (look *soonestLook) cut() {
	slices.SortFunc(look.first, func(x, y left) int {
		return cmp.Or(cmp.Compare(x.remaining, y.remaining), cmp.Compare(x.id, y.id))
	})
	look.first = look.first[:min(len(look.first), look.request.Size)]
}
