package leader

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
)

// soonest finds the sessions that would expire first if all stayed silent. It waits for a good round as every read does
// (R4 leadership needs a good round). It visits all sessions in the order of memory, a few at a time, so that touches
// wait only briefly for a shard's lock. Until a new term has filed all sessions, soonest refuses.
func (q *requests) soonest(ctx context.Context, r *session.SoonestRequest) (session.Reply, error) {
	if r.Size < 1 || r.Size > session.MaxPage {
		return session.Reply{}, &session.FieldError{Field: "size", Limit: fmt.Sprintf("1 to %d", session.MaxPage)}
	}
	index := q.view.CommitIndex()
	if err := q.heartbeats.await(ctx); err != nil {
		return session.Reply{}, readError(err)
	}
	scan := q.searchSoonest(r)
	for i := range q.registry.shards {
		if !q.search(&q.registry.shards[i], &scan) {
			return session.Reply{}, session.ErrNoLeader
		}
		if ctx.Err() != nil {
			return session.Reply{}, readError(ctx.Err())
		}
	}
	scan.cut()
	reply := session.Reply{Term: q.term.number, Index: index}
	for _, one := range scan.first {
		reply.Soonest, reply.Remaining = append(reply.Soonest, one.id), append(reply.Remaining, one.remaining)
	}
	return reply, nil
}

// soonestScan is a search for the sessions with the shortest remaining times.
type soonestScan struct {
	request *session.SoonestRequest
	now     time.Duration
	states  *ownerStates
	frozen  time.Duration
	// some are the sessions of a part that may be among the first.
	some []left
	// first has at least the visited sessions with the shortest remaining times. Once enough is set, no session with a
	// remaining time of enough or more is among the first.
	first  []left
	enough time.Duration
}

// left is a session's remaining time.
type left struct {
	id        session.ID
	remaining time.Duration
}

func (q *requests) searchSoonest(r *session.SoonestRequest) soonestScan {
	now, states := q.heartbeats.owners()
	return soonestScan{request: r, now: now, states: states, frozen: q.heartbeats.frozen()}
}

// search visits the sessions of a shard. It returns false if the shard may lack sessions.
func (q *requests) search(s *shard, scan *soonestScan) bool {
	for part, more := 0, true; more; part++ {
		s.mu.Lock()
		filling := s.filling()
		more = scan.sift(s.queue, part)
		s.mu.Unlock()
		if filling {
			return false
		}
		q.consider(scan)
	}
	return true
}

// sift gathers the sessions of a part that may be among the first, and reports whether there are higher parts. Called
// with the shard's lock held.
func (scan *soonestScan) sift(from *queue, part int) (more bool) {
	scan.some = scan.some[:0]
	owner := scan.request.Filter.Owner
	return from.Some(part, func(it *item) {
		remaining := max(scan.states.due(it)-scan.now, 0) + scan.frozen
		if (owner == 0 || it.Value.owner == owner) && (scan.enough == 0 || remaining < scan.enough) {
			scan.some = append(scan.some, left{it.ID(), remaining})
		}
	})
}

// consider adds the sessions of some that match.
func (q *requests) consider(scan *soonestScan) {
	for _, one := range scan.some {
		if kept := q.cfg.Tree.kept(one.id, scan.now); kept > scan.now {
			one.remaining = max(one.remaining, kept-scan.now+scan.frozen)
		}
		if scan.enough != 0 && one.remaining >= scan.enough || !scan.request.Filter.MatchRemaining(one.remaining) {
			continue
		}
		if found, ok := q.view.Session(one.id); !ok || !scan.request.Filter.Match(&found) {
			continue
		}
		if scan.first = append(scan.first, one); len(scan.first) == 2*scan.request.Size {
			scan.cut()
			scan.enough = scan.first[len(scan.first)-1].remaining
		}
	}
}

// cut sorts first and keeps the requested number of sessions.
func (scan *soonestScan) cut() {
	slices.SortFunc(scan.first, func(x, y left) int {
		return cmp.Or(cmp.Compare(x.remaining, y.remaining), cmp.Compare(x.id, y.id))
	})
	scan.first = scan.first[:min(len(scan.first), scan.request.Size)]
}
