package leader

import (
	"context"
	"fmt"

	"holdfast/session"
)

// open proposes a session for the node that received the request.
func (q *requests) open(ctx context.Context, node session.Node, r *session.OpenRequest) (session.Reply, error) {
	timeout, err := q.cfg.Limits.Negotiate(r.Timeout)
	if err != nil {
		return session.Reply{}, err
	}
	if err = r.Labels.Check(); err != nil {
		return session.Reply{}, err
	}
	ms, err := q.wall.limit(node, r.MS)
	if err != nil {
		return session.Reply{}, err
	}
	return q.add(ctx, session.OpenSession{
		Node: node, MS: ms, Timeout: timeout, Labels: r.Labels, RequestID: r.RequestID,
	})
}

// claim proposes a block of ids for the node that asks (O3). Only the answer hands a block out: if a deposed leader's
// entry commits and its answer is lost, nobody uses the block.
func (q *requests) claim(ctx context.Context, node session.Node, r *session.ClaimRequest) (session.Reply, error) {
	if err := session.CheckClaim(r.Count); err != nil {
		return session.Reply{}, err
	}
	ms, err := q.wall.limit(node, r.MS)
	if err != nil {
		return session.Reply{}, err
	}
	return q.propose(ctx, session.ClaimIDs{Node: node, MS: ms, Count: r.Count})
}

// upgrade proposes to make a local session global, for the only node that can know the session (L7).
func (q *requests) upgrade(ctx context.Context, node session.Node, r *session.UpgradeRequest) (session.Reply, error) {
	if r.ID.Node() != node {
		return session.Reply{}, &session.FieldError{
			Field: "session_id", Limit: fmt.Sprintf("an id of node %d, which asks", node),
		}
	}
	return q.add(ctx, session.UpgradeSession(*r))
}

// add proposes a command that makes a session, if there is room. A refusal here costs neither an entry nor memory,
// because a refused client may come again and again (O4).
func (q *requests) add(ctx context.Context, c session.Command) (session.Reply, error) {
	if err := q.cfg.Room(c); err != nil {
		q.stats.full.Add(1)
		return session.Reply{}, err
	}
	return q.propose(ctx, c)
}
